#pragma once

#include <Python.h>

#include <thread>
#include <unordered_set>

namespace tracehost::python {

/// The tensor objects made while a trace runs, by any thread.
///
/// A tensor that no recorded op made is a capture if it existed before the trace, and an error if
/// not (`t.data`, dlpack, another thread). torch keeps no birthday, so `tp_alloc` of torch.Tensor
/// and nn.Parameter is replaced once, at import, by one that notes the object where a trace is
/// active. An address is noted as long as the trace runs: an object that reuses it was born later
/// still. A tensor that the tracing thread makes in an eager region (trace/eager_region.h) counts
/// as made before the trace.
///
/// Requires for every member: GIL held.
class Allocations {
public:
  Allocations();
  ~Allocations();
  Allocations(const Allocations &) = delete;
  Allocations &operator=(const Allocations &) = delete;

  bool has(PyObject *tensor) const { return born_.contains(tensor); }
  /// Whether an eager region of a trace that is under way on this thread made `tensor`.
  static bool made_aside(PyObject *tensor);
  static bool any_made_aside();
  /// Whether allocations of exactly this type are noted (not of other subclasses of Tensor).
  static bool notes(PyTypeObject *type);
  static void install(); ///< at import

private:
  void note(PyObject *tensor);

  std::unordered_set<PyObject *> born_, aside_;
  const std::thread::id thread_ = std::this_thread::get_id();
  Allocations *next_; ///< other active traces
  friend PyObject *note_allocation(PyTypeObject *, Py_ssize_t);
};

} // namespace tracehost::python
