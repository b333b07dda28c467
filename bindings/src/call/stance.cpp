#include "call/stance.h"

#include "trace/eager_region.h"
#include "trace/tracer.h"

#include <vector>

namespace tracehost::python {

std::atomic<std::uint32_t> stances_in_force = 0;

namespace {

namespace py = pybind11;

/// Under the GIL. `eagerly` is run_functions_eagerly's and wins over `stance`.
struct Process {
  Stance stance = Stance::trace;
  bool eagerly = false;

  bool in_force() const { return eagerly || stance != Stance::trace; }
} process;

/// Those of the `with` blocks that a thread is in, outer ones first.
class ThreadStances {
public:
  ~ThreadStances() { // a generator with an open block may outlive its thread
    if (!stances_.empty())
      --stances_in_force;
  }
  void push(Stance stance) {
    stances_in_force += stances_.empty();
    stances_.push_back(stance);
  }
  void pop() {
    if (stances_.empty())
      return;
    stances_.pop_back();
    stances_in_force -= stances_.empty();
  }
  const Stance *top() const { return stances_.empty() ? nullptr : &stances_.back(); }

private:
  std::vector<Stance> stances_;
};
thread_local ThreadStances mine;

template <class F> void change_process(const F &change) {
  stances_in_force -= process.in_force();
  change();
  stances_in_force += process.in_force();
}

Stance process_stance() { return process.stance; }

Stance exchange_process_stance(Stance stance) {
  const Stance before = process.stance;
  change_process([&] { process.stance = stance; });
  return before;
}

bool exchange_eagerly(bool eagerly) {
  const bool before = process.eagerly;
  change_process([&] { process.eagerly = eagerly; });
  return before;
}

} // namespace

Stance stance_in_force() {
  if (const Stance *top = mine.top())
    return *top;
  return process.eagerly ? Stance::eager : process.stance;
}

InStance::InStance(Stance stance) { mine.push(stance); }
InStance::~InStance() { mine.pop(); }

void add_switches(py::module_ &m) {
  py::enum_<Stance>(m, "Stance")
      .value("default", Stance::trace)
      .value("eager", Stance::eager)
      .value("eager_on_miss", Stance::eager_on_miss)
      .value("eager_on_error", Stance::eager_on_error)
      .value("fail_on_miss", Stance::fail_on_miss);
  m.def("stance", stance);
  m.def("process_stance", process_stance);
  m.def("exchange_process_stance", exchange_process_stance);
  m.def("exchange_eagerly", exchange_eagerly);
  m.def("push_stance", [](Stance stance) { mine.push(stance); });
  m.def("pop_stance", [] { mine.pop(); });
  m.def("inside_function", trace::recording);
  m.def("enter_eager_region", trace::enter_eager_region);
  m.def("leave_eager_region", trace::leave_eager_region);
}

} // namespace tracehost::python
