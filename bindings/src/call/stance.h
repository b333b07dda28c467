#pragma once

#include "function/stance.h"

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>

/// Which Stance a call from Python has: the thread's own, if it is in a `with`, else the process's.
/// One word says that neither is set, so that a hot call pays for one load.

namespace tracehost::python {

/// How many stances are set: the process's, and one for each thread that has its own.
extern std::atomic<std::uint32_t> stances_in_force;

[[gnu::cold]] Stance stance_in_force();

/// Hot. Requires: GIL held.
inline Stance stance() {
  if (stances_in_force.load(std::memory_order_relaxed) == 0) [[likely]]
    return Stance::trace;
  return stance_in_force();
}

/// This thread has another stance for a block. Requires: GIL held at both ends.
class InStance {
public:
  explicit InStance(Stance stance);
  ~InStance();
  InStance(const InStance &) = delete;
  InStance &operator=(const InStance &) = delete;
};

/// What `_switches.py` is made of.
void add_switches(pybind11::module_ &m);

} // namespace tracehost::python
