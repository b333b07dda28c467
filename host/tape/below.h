#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>

/// Ops run below autograd, and what may end a run meanwhile.

namespace tracehost::tape {

/// What ends a run, of interruptible().
struct Interruption {
  std::exception_ptr error;
};

/// Calls `interruptible`; throws Interruption with what it throws. Not in a recording, which ends
/// by itself: the call that follows takes the signal. Requires: within Below.
void interrupt(void (*interruptible)());

/// For a scope, ops run below autograd. A handler of a signal runs as outside.
class Below {
public:
  Below()
      : outside_(current ? current->outside_ : c10::impl::tls_local_dispatch_key_set()),
        before_(current) {
    current = this;
  }
  ~Below() { current = before_; }
  Below(const Below &) = delete;
  Below &operator=(const Below &) = delete;

private:
  friend void interrupt(void (*interruptible)());
  static thread_local const Below *current;
  const c10::impl::LocalDispatchKeySet outside_;
  const Below *const before_;
  const at::AutoDispatchBelowADInplaceOrView guard_; // behind outside_
};

/// Whether ops of the thread run below autograd.
bool is_below(const c10::impl::LocalDispatchKeySet &keys);

} // namespace tracehost::tape
