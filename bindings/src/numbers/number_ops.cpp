#include "numbers/number_ops.h"

#include "base/errors.h"
#include "numbers/traced_number.h"
#include "program/numbers.h"
#include "program/ops.h"
#include "trace/numbers.h"

#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tracehost::python {

namespace py = pybind11;

namespace {

const NumberOp &number_op_named(const std::string &name) {
  const NumberOp *op = find_number_op(name);
  if (!op)
    raise(PyExc_KeyError, "no op on numbers is named '" + name + "'");
  return *op;
}

/// The value of a traced number, an exact bool or float, or an int in the range of int64; nullopt
/// for all else.
std::optional<c10::IValue> operand(py::handle value) {
  PyObject *object = value.ptr();
  if (is_traced_number(object)) {
    const at::Tensor &number = THPVariable_Unpack(object);
    return is_live(number) ? c10::IValue(number) : c10::IValue(number.item());
  }
  if (PyBool_Check(object))
    return c10::IValue(object == Py_True);
  if (PyFloat_CheckExact(object))
    return c10::IValue(PyFloat_AS_DOUBLE(object));
  int overflow = 0;
  if (!PyLong_CheckExact(object))
    return std::nullopt;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow ? std::nullopt : std::optional(c10::IValue(static_cast<std::int64_t>(number)));
}

/// What `apply` gives for the op; NotImplemented where the graph can't have it: an operand or the
/// result is neither bool, int of 64 bits nor float.
template <class Apply>
py::object compute(const std::string &name, const py::args &numbers, const Apply &apply) {
  const NumberOp &op = number_op_named(name);
  std::vector<c10::IValue> operands;
  for (const py::handle number : numbers) {
    auto value = operand(number);
    if (!value)
      return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    operands.push_back(std::move(*value));
  }
  try {
    return py::reinterpret_steal<py::object>(apply(op, operands));
  } catch (const LeavesNumbers &) {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  }
}

py::object number_op(const std::string &name, const py::args &numbers) {
  return compute(name, numbers, [](const NumberOp &op, const std::vector<c10::IValue> &operands) {
    return python_number(apply_number_op(op, operands));
  });
}

py::object traced_number_op(const std::string &name, const py::args &numbers) {
  return compute(name, numbers, [](const NumberOp &op, const std::vector<c10::IValue> &operands) {
    return make_traced_number(trace::compute_number(op, operands));
  });
}

NumberKind kind_of_type(py::handle type) {
  const void *asked = type.ptr();
  if (asked == &PyBool_Type)
    return NumberKind::boolean;
  return asked == &PyFloat_Type ? NumberKind::real : NumberKind::integer;
}

py::object kind_of_number(const std::string &name, const py::args &types) {
  std::vector<NumberKind> operands;
  for (const py::handle type : types)
    operands.push_back(kind_of_type(type));
  const auto kind = kind_of_result(number_op_named(name), operands);
  if (!kind)
    return py::none();
  PyTypeObject *type = *kind == NumberKind::boolean   ? &PyBool_Type
                       : *kind == NumberKind::integer ? &PyLong_Type
                                                      : &PyFloat_Type;
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject *>(type));
}

} // namespace

void add_numbers(py::module_ &m) {
  m.def("number_ops", [] {
    py::dict arities;
    for (const NumberOp *op : number_ops())
      arities[py::str(op->name.data(), op->name.size())] = op->arity;
    return arities;
  });
  m.def("number_op", number_op);
  m.def("_number_op", traced_number_op);
  m.def("kind_of_number", kind_of_number);
  m.def("_has_numbers", trace::has_numbers);
}

} // namespace tracehost::python
