#include "call/declaration.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/object.h"
#include "pytree/tensor_spec.h"
#include "trace/tracer.h"

#include <pybind11/pybind11.h>

namespace tracehost::python {

namespace py = pybind11;

Declaration::Declaration(PyObject *object) : object_(Py_NewRef(object)) {
  const py::handle self(object);
  for (const py::handle parameter : self.attr("specs")) {
    auto &specs = specs_.emplace_back();
    for (const py::handle spec : parameter)
      specs.push_back(*as_tensor_spec(spec.ptr()));
  }
}

namespace {

/// Cuts the traceback of a SignatureError at the line of the call. The frames below are
/// tracehost's.
[[noreturn]] void rethrow_at_call() {
  if (PyErr_ExceptionMatches(errors().signature)) {
    Owned error = take_error();
    PyException_SetTraceback(error.get(), Py_None);
    set_error(std::move(error));
  }
  rethrow();
}

} // namespace

PyObject *Declaration::convert(const Binder &binder, const Bound &bound) const {
  const auto tuple_of = [](PyObject *const *values, std::size_t count) {
    py::tuple result(count);
    for (std::size_t i = 0; i < count; ++i)
      result[i] = py::reinterpret_borrow<py::object>(values[i]);
    return result;
  };
  const py::tuple values = tuple_of(bound.values, binder.fixed());
  const py::tuple extra = tuple_of(bound.extra, bound.extra_count);
  const Owned made(PyObject_CallMethod(object_.get(), "convert", "OOO", values.ptr(), extra.ptr(),
                                       trace::active() ? Py_True : Py_False));
  if (!made)
    rethrow_at_call();
  return made.get() == Py_None ? nullptr : Py_NewRef(made.get());
}

void Declaration::make_dynamic(Signature &signature) const {
  // Closed dimensions by slot: one that some occurrence of the tensor must have as it is.
  std::vector<std::vector<bool>> closed;
  for (const TensorMeta &meta : signature.slots)
    closed.emplace_back(meta.sizes.size(), false);
  const auto close = [&](std::uint32_t slot, const TensorSpec *spec) {
    auto &dimensions = closed[slot];
    for (std::size_t d = 0; d < dimensions.size(); ++d)
      if (!spec || (spec->shape && (d >= spec->shape->size() || (*spec->shape)[d] != kAnySize)))
        dimensions[d] = true;
  };
  for (std::size_t p = 0; p < specs_.size(); ++p) {
    const std::size_t begin = signature.subtree(p);
    std::size_t tensors = 0;
    for (std::size_t i = begin; i < signature.nodes[begin].end; ++i) {
      const Node &node = signature.nodes[i];
      if (node.kind != Kind::tensor)
        continue;
      close(node.payload.slot, tensors < specs_[p].size() ? &specs_[p][tensors] : nullptr);
      ++tensors;
    }
  }
  for (std::size_t slot = 0; slot < closed.size(); ++slot)
    for (std::size_t d = 0; d < closed[slot].size(); ++d)
      if (!closed[slot][d])
        signature.slots[slot].make_dynamic(d);
}

} // namespace tracehost::python
