#include "numbers/number_ops.h"

#include "base/errors.h"
#include "numbers/traced_number.h"
#include "program/numbers.h"
#include "program/ops.h"

#include <string>
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

c10::IValue ivalue_of_number(PyObject *number) {
  if (PyBool_Check(number))
    return {number == Py_True};
  if (PyFloat_CheckExact(number))
    return {PyFloat_AS_DOUBLE(number)};
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred())
    rethrow();
  return {static_cast<std::int64_t>(value)};
}

py::object number_op(const std::string &name, const py::args &numbers) {
  const NumberOp &op = number_op_named(name);
  std::vector<c10::IValue> arguments;
  for (const py::handle number : numbers)
    arguments.push_back(ivalue_of_number(number.ptr()));
  try {
    return py::reinterpret_steal<py::object>(python_number(apply_number_op(op, arguments)));
  } catch (const LeavesNumbers &) {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  } catch (const Raised &) {
    set_from_current_exception();
    throw py::error_already_set();
  }
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
  m.def("kind_of_number", kind_of_number);
}

} // namespace tracehost::python
