#include "tape/quiet.h"

#include <mutex>

namespace tracehost::tape {
namespace {

/// The setting is one for all threads: the first scope keeps it, and the last one restores it.
std::mutex mutex;
int scopes = 0;
bool always = false;

} // namespace

Quiet::Quiet() : guard_(this) {
  const std::lock_guard lock(mutex);
  if (scopes++ == 0)
    always = c10::WarningUtils::get_warnAlways();
  c10::WarningUtils::set_warnAlways(true);
}

Quiet::~Quiet() {
  const std::lock_guard lock(mutex);
  if (--scopes == 0)
    c10::WarningUtils::set_warnAlways(always);
}

} // namespace tracehost::tape
