#include "traced_size.h"

#include "errors.h"
#include "guards/gil.h"
#include "guards/reads.h"
#include "trace/lifted.h"
#include "trace/tracer.h"

#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>

namespace tracehost::python {
namespace {

namespace py = pybind11;

PyTypeObject *size_class = nullptr; ///< lives as long as the package

const at::Tensor &unpack(py::handle object) {
  if (!THPVariable_Check(object.ptr()))
    throw py::type_error("a tensor is expected");
  return THPVariable_Unpack(object.ptr());
}

bool live(py::handle size) { return trace::recording() && trace::is_traced_size(unpack(size)); }

} // namespace

bool is_traced_size(PyObject *object) { return size_class && Py_TYPE(object) == size_class; }

bool is_number(PyObject *tensor) {
  if (is_traced_size(tensor))
    return true;
  PyObject **attributes = _PyObject_GetDictPtr(tensor);
  if (!attributes || !*attributes)
    return false;
  const Owned mark(PyUnicode_InternFromString("_tracehost_number")); // autograph/_state.py sets it
  return mark && PyDict_Contains(*attributes, mark.get()) == 1;
}

PyObject *number_of(const at::Tensor &t) {
  const at::Scalar number = t.item();
  return number.isBoolean()         ? PyBool_FromLong(number.toBool())
         : number.isIntegral(false) ? PyLong_FromLongLong(number.toLong())
                                    : PyFloat_FromDouble(number.toDouble());
}

PyObject *make_traced_size(const at::Tensor &size) {
  py::object result;
  {
    const trace::PausedWithData paused;
    const auto plain = py::reinterpret_steal<py::object>(THPVariable_Wrap(size));
    const py::handle type(reinterpret_cast<PyObject *>(size_class));
    result = type.attr("_make_subclass")(type, plain);
  }
  trace::same_value(size, THPVariable_Unpack(result.ptr()));
  return result.release().ptr();
}

PyObject *traced_size_of(const at::Tensor &tensor, std::int64_t dimension) {
  const auto size = trace::traced_size(tensor, dimension);
  return size ? make_traced_size(*size) : nullptr;
}

PyObject *traced_shape_of(const at::Tensor &tensor) {
  if (!trace::relaxing())
    return nullptr;
  bool any = false;
  py::tuple sizes(static_cast<std::size_t>(tensor.dim()));
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    PyObject *size = traced_size_of(tensor, d);
    any |= size != nullptr;
    sizes[static_cast<std::size_t>(d)] =
        py::reinterpret_steal<py::object>(size ? size : PyLong_FromLongLong(tensor.size(d)));
  }
  if (!any)
    return nullptr;
  PyObject *result = PyObject_CallOneArg(reinterpret_cast<PyObject *>(&THPSizeType), sizes.ptr());
  if (!result)
    rethrow();
  return result;
}

/// Where that is refused and the body goes on without a trace, it goes on with the number.
static std::int64_t pinned(const at::Tensor &size, const std::string &why) {
  try {
    return trace::pin_size(size, why);
  } catch (const trace::Abandoned &) {
    const trace::PausedWithData paused;
    return size.item().toLong();
  }
}

PyObject *pin_sizes(PyObject *object, const std::string &why) {
  auto held = py::reinterpret_steal<py::object>(object);
  const auto pin = [&](PyObject *size) { return py::int_(pinned(THPVariable_Unpack(size), why)); };
  if (is_traced_size(object))
    return pin(object).release().ptr();
  if (Py_TYPE(object) != &THPSizeType)
    return held.release().ptr();
  py::tuple sizes(static_cast<std::size_t>(PyTuple_GET_SIZE(object)));
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    PyObject *size = PyTuple_GET_ITEM(object, d);
    sizes[d] =
        is_traced_size(size) ? py::object(pin(size)) : py::reinterpret_borrow<py::object>(size);
  }
  PyObject *result = PyObject_CallOneArg(reinterpret_cast<PyObject *>(&THPSizeType), sizes.ptr());
  if (!result)
    rethrow();
  return result;
}

void add_traced_size(py::module_ &m) {
  m.def("_set_size_class",
        [](py::type type) { size_class = reinterpret_cast<PyTypeObject *>(type.release().ptr()); });
  // Whether a size still stands for a value of the graph being traced.
  m.def("_size_is_live", [](py::handle size) { return live(size); });
  m.def("_as_size", [](py::object tensor) {
    return live(tensor) ? py::reinterpret_steal<py::object>(make_traced_size(unpack(tensor)))
                        : tensor;
  });
  m.def("_pin_size",
        [](py::handle size, const std::string &why) { return pinned(unpack(size), why); });
  m.def("_size_is_shown", [](py::handle size) { return !live(size) || Reads::printing(); });
  m.def("_size_index", [](py::handle size) { return trace::index_of_size(unpack(size)); });
  m.def("_size_value", [](py::handle size) {
    if (trace::lifted())
      return trace::pin_size(unpack(size), "a size in init_scope");
    const trace::PausedWithData paused;
    return unpack(size).item().toLong();
  });
}

} // namespace tracehost::python
