#include "tape/below.h"

#include "tape/recording.h"

#include <c10/util/ScopeExit.h>

#include <utility>

namespace tracehost::tape {

thread_local const Below *Below::current = nullptr;

void interrupt(void (*interruptible)()) {
  if (TimeLimit::current) // a recording takes no signal
    return;
  const auto &outside = Below::current->outside_;
  const c10::impl::ForceDispatchKeyGuard as_outside(outside.included_, outside.excluded_);
  const Below *const within = std::exchange(Below::current, nullptr);
  const auto back = c10::make_scope_exit([within] { Below::current = within; });
  try {
    interruptible();
  } catch (...) {
    throw Interruption{std::current_exception()};
  }
}

bool is_below(const c10::impl::LocalDispatchKeySet &keys) {
  return keys.excluded_.has(c10::DispatchKey::ADInplaceOrView);
}

} // namespace tracehost::tape
