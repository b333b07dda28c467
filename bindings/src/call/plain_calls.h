#pragma once

#include <Python.h>

#include <span>
#include <string>

/// Calls that no graph serves, because what is around them works on the ops themselves: functorch's
/// transforms, dispatch modes (make_fx, torch.export, fake tensors), torch.fx, torch.compile. The
/// Function is transparent there: its body runs as plain Python, which is counted (`eager`) and
/// reported once. Under torch.compile it is not reported: torch compiles the body.
///
/// torch.utils.checkpoint runs a call twice, and the second run has to save the same tensors as the
/// first. A trace runs the body, and the next call the graph, which may save others. So a call in a
/// checkpoint is traced ahead, without data, and runs its graph both times.
///
/// Requires: GIL held.

namespace tracehost::python {

/// Thrown in place of a graph. `around`: `a functorch transform (vmap, grad, ...)`; empty: not
/// reported.
struct RunsPlain {
  std::string around;
};
/// Thrown in place of a trace with data.
struct TraceAhead {};

struct PythonFunction;

/// Asked where no Specialization serves a call. Throws RunsPlain in torch.fx.symbolic_trace and
/// torch.compile, TraceAhead in torch.utils.checkpoint.
void check_what_is_around(const PythonFunction &function);

/// Asked at the same place. Throws RunsPlain if one of the tensors is fake (torch's FakeTensor):
/// its ops enter FakeTensorMode by themselves, which no graph does.
void check_what_is_passed(std::span<PyObject *const> tensors);

/// A call of `function` on this thread has been traced ahead: if no graph serves it all the same,
/// RunsPlain is thrown.
class TracedAhead {
public:
  explicit TracedAhead(const PythonFunction &function);
  ~TracedAhead();
  TracedAhead(const TracedAhead &) = delete;
  TracedAhead &operator=(const TracedAhead &) = delete;

private:
  const PythonFunction *const before_;
};

/// `get_concrete_function` with the call's arguments, no hook of the checkpoint seeing it. False
/// with the error set.
bool trace_ahead(PyObject *function, PyObject *const *args, std::size_t nargsf, PyObject *kwnames);

} // namespace tracehost::python
