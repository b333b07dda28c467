#include "numbers/traced_number.h"

#include "base/errors.h"
#include "base/object.h"
#include "numbers/numbers_left.h"
#include "program/ops.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/lifted.h"
#include "trace/messages.h"
#include "trace/numbers.h"
#include "trace/tracer.h"

#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <string>
#include <vector>

namespace tracehost::python {
namespace {

namespace py = pybind11;

const at::Tensor &unpack(py::handle object) {
  if (!THPVariable_Check(object.ptr()))
    throw py::type_error("a tensor is expected");
  return THPVariable_Unpack(object.ptr());
}

bool is_live_size(py::handle number) {
  return trace::recording() && trace::is_traced_size(unpack(number));
}

bool is_live(py::handle number) {
  return trace::recording() &&
         (trace::is_traced_number(unpack(number)) || trace::is_traced_size(unpack(number)));
}

/// A number that is used must not be of a block that is closed.
void check_left(const at::Tensor &number) {
  if (trace::recording() && !trace::is_traced_number(number) && !trace::is_traced_size(number))
    trace::check_not_of_block(number);
}

/// The value of a traced number, an exact bool or float, or an int in the range of int64; nullopt
/// for all else.
std::optional<c10::IValue> operand(py::handle value) {
  PyObject *object = value.ptr();
  if (is_traced_number(object) && is_live(value))
    return c10::IValue(unpack(value));
  if (is_traced_number(object))
    return operand(py::reinterpret_steal<py::object>(number_of(unpack(value))));
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

/// What the op gives for numbers of which one is traced; NotImplemented where the graph can't have
/// it: an operand or the result is neither bool, int of 64 bits nor float.
py::object compute(const std::string &name, const py::args &arguments) {
  const NumberOp *op = find_number_op(name);
  if (!op)
    throw py::value_error("no such op of numbers: " + name);
  std::vector<c10::IValue> operands;
  for (const py::handle argument : arguments) {
    auto value = operand(argument);
    if (!value)
      return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    operands.push_back(std::move(*value));
  }
  try {
    return py::reinterpret_steal<py::object>(
        make_traced_number(trace::compute_number(*op, operands)));
  } catch (const LeavesNumbers &) {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  } catch (const Raised &) {
    set_from_current_exception();
    throw py::error_already_set();
  }
}

} // namespace

bool is_number(PyObject *tensor) {
  if (is_traced_number(tensor))
    return true;
  PyObject **attributes = _PyObject_GetDictPtr(tensor);
  if (!attributes || !*attributes)
    return false;
  const Owned mark(PyUnicode_InternFromString("_tracehost_number")); // set by staging/state.py
  return mark && PyDict_Contains(*attributes, mark.get()) == 1;
}

PyObject *number_of(const at::Tensor &t) {
  const at::Scalar number = t.item();
  return number.isBoolean()         ? PyBool_FromLong(number.toBool())
         : number.isIntegral(false) ? PyLong_FromLongLong(number.toLong())
                                    : PyFloat_FromDouble(number.toDouble());
}

PyObject *make_traced_number(const at::Tensor &size) {
  py::object result;
  {
    const trace::PausedWithData paused;
    const auto plain = py::reinterpret_steal<py::object>(THPVariable_Wrap(size));
    const py::handle type(reinterpret_cast<PyObject *>(traced_number_class()));
    result = type.attr("_make_subclass")(type, plain);
  }
  const at::Tensor &made = THPVariable_Unpack(result.ptr());
  if (size.unsafeGetTensorImpl()->is_wrapped_number())
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
  trace::same_value(size, made);
  if (trace::recording() && trace::in_block())
    trace::note_made_in_block(made);
  NumbersLeft::made(result.ptr());
  return result.release().ptr();
}

PyObject *traced_size_of(const at::Tensor &tensor, std::int64_t dimension) {
  const auto size = trace::traced_size(tensor, dimension);
  return size ? make_traced_number(*size) : nullptr;
}

PyObject *traced_shape_of(const at::Tensor &tensor) {
  if (!trace::has_dynamic_sizes())
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

PyObject *python_number(const c10::IValue &value) {
  return value.isBool()  ? PyBool_FromLong(value.toBool())
         : value.isInt() ? PyLong_FromLongLong(value.toInt())
                         : PyFloat_FromDouble(value.toDouble());
}

PyObject *value_of(PyObject *number) {
  const auto value = trace::value_of_number(THPVariable_Unpack(number));
  PyObject *made = value ? python_number(*value) : nullptr;
  if (!made)
    PyErr_Clear();
  return made;
}

/// If that is unsupported and the body continues without a trace, the body gets the number.
static std::int64_t number_of(const at::Tensor &size, const std::string &why) {
  try {
    return trace::specialize_size(size, why);
  } catch (const trace::Abandoned &) {
    const trace::PausedWithData paused;
    return size.item().toLong();
  }
}

/// The number itself, a new reference. A size becomes specialized. A number that was read from a
/// tensor gets a check in the graph. A body that continues without a trace gets the number, too.
static PyObject *needed(const at::Tensor &number, const std::string &how) {
  check_left(number);
  if (trace::active() && !trace::abandoned()) {
    if (trace::is_traced_size(number))
      return PyLong_FromLongLong(number_of(number, how + " of a size"));
    try {
      trace::need_number(number, how);
    } catch (const trace::Abandoned &) {
    }
  }
  const trace::PausedWithData paused;
  return number_of(number);
}

PyObject *specialize_sizes(PyObject *object, const std::string &why) {
  auto held = py::reinterpret_steal<py::object>(object);
  const auto number = [&](PyObject *size) {
    return py::int_(number_of(THPVariable_Unpack(size), why));
  };
  if (is_traced_number(object))
    return number(object).release().ptr();
  if (Py_TYPE(object) != &THPSizeType)
    return held.release().ptr();
  py::tuple sizes(static_cast<std::size_t>(PyTuple_GET_SIZE(object)));
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    PyObject *size = PyTuple_GET_ITEM(object, d);
    sizes[d] = is_traced_number(size) ? py::object(number(size))
                                      : py::reinterpret_borrow<py::object>(size);
  }
  PyObject *result = PyObject_CallOneArg(reinterpret_cast<PyObject *>(&THPSizeType), sizes.ptr());
  if (!result)
    rethrow();
  return result;
}

PyObject *read_number(const at::Tensor &t) { return make_traced_number(trace::read_number(t)); }

/// `elements`: those of the tensor that are left; takes as many as the dimensions from `depth` on
/// hold.
static py::object lists_of(c10::IntArrayRef sizes, std::size_t depth, const at::Tensor *&elements) {
  if (depth == sizes.size())
    return py::reinterpret_steal<py::object>(read_number(*elements++));
  py::list made;
  for (std::int64_t i = 0; i < sizes[depth]; ++i)
    made.append(lists_of(sizes, depth + 1, elements));
  return made;
}

PyObject *read_numbers(const at::Tensor &t) {
  const std::vector<at::Tensor> elements = t.dim() == 0   ? std::vector{t}
                                           : t.dim() == 1 ? t.unbind()
                                                          : t.reshape({-1}).unbind();
  const at::Tensor *next = elements.data();
  return lists_of(t.sizes(), 0, next).release().ptr();
}

bool can_be_listed(const at::Tensor &t) {
  constexpr std::int64_t kMost = 256;
  return trace::recording() && !trace::abandoned() && trace::number_kind(t.scalar_type()) &&
         !trace::is_traced_size(t) && t.layout() == at::kStrided && t.numel() <= kMost &&
         trace::has_exact_sizes(t);
}

bool can_be_read(const at::Tensor &t) {
  return trace::recording() && !trace::abandoned() && t.numel() == 1 &&
         trace::number_kind(t.scalar_type()) && !trace::is_traced_size(t);
}

void add_traced_number(py::module_ &m) {
  m.def("_set_number_class", [](py::type type) {
    set_traced_number_class(reinterpret_cast<PyTypeObject *>(type.release().ptr()));
  });
  // Whether the graph can check a condition before its effects: it follows from slots alone.
  m.def("can_be_checked", [](py::handle number) {
    return is_traced_number(number.ptr()) && trace::recording() && trace::traces_reads() &&
           trace::can_be_checked(unpack(number));
  });
  // Whether a number still stands for a value of the graph being traced.
  m.def("_settle_kind", [](py::handle number) {
    if (trace::recording())
      trace::settle_kind(unpack(number));
  });
  m.def("_number_is_live", [](py::handle number) { return is_live(number); });
  m.def("_number_is_size", [](py::handle number) { return is_live_size(number); });
  m.def("_number_is_read", [](py::handle number) {
    return trace::recording() && trace::is_traced_number(unpack(number));
  });
  m.def("_number_tensor", [](py::handle number) {
    return py::reinterpret_steal<py::object>(
        THPVariable_Wrap(trace::tensor_of_number(unpack(number))));
  });
  m.def("_read_number",
        [](py::handle t) { return py::reinterpret_steal<py::object>(read_number(unpack(t))); });
  m.def("_can_be_read",
        [](py::handle t) { return can_be_read(unpack(t)) && trace::traces_reads(); });
  m.def("_number_op", &compute);
  m.def("_number_needed", [](py::handle number, const std::string &how) {
    return py::reinterpret_steal<py::object>(needed(unpack(number), how));
  });
  m.def("_as_size", [](py::object tensor) {
    return is_live_size(tensor)
               ? py::reinterpret_steal<py::object>(make_traced_number(unpack(tensor)))
               : tensor;
  });
  m.def("_specialize_size",
        [](py::handle size, const std::string &why) { return number_of(unpack(size), why); });
  // The value, on its way to an op as a constant.
  m.def("_number_given", [](py::handle number) {
    check_left(unpack(number));
    const c10::IValue value = trace::give_number(unpack(number));
    return py::reinterpret_steal<py::object>(python_number(value));
  });
  m.def("_number_float", [](py::handle number) {
    if (trace::recording() && trace::is_traced_number(unpack(number)))
      return py::float_(trace::real_of_number(unpack(number)));
    return py::float_(py::reinterpret_steal<py::object>(needed(unpack(number), "float()")));
  });
  m.def("_number_has_no_text", [](py::handle number) {
    const bool in_block = trace::active() && trace::in_block() && trace::without_data();
    return in_block || !trace::value_of_number(unpack(number));
  });
  // Where it has no text: of a mark in what a block raises.
  m.def("_number_text", [](py::handle number, const std::string &spec, const std::string &kind) {
    return is_live(number) ? trace::mark_of_text(unpack(number), spec, kind)
                           : "<traced " + kind + ">";
  });
  m.def("_number_index", [](py::handle number) {
    if (trace::recording() && trace::is_traced_number(unpack(number)))
      return trace::index_of_number(unpack(number));
    check_left(unpack(number));
    // torch.tensor() reads with the tracer switched off.
    if (trace::active() && !trace::abandoned() && !trace::is_traced_size(unpack(number)))
      trace::need_number(unpack(number), "by C code");
    return trace::index_of_size(unpack(number));
  });
  m.def("_number_value", [](py::handle number) {
    if (trace::lifted() && is_live_size(number))
      return py::object(py::int_(trace::specialize_size(unpack(number), "a size in init_scope")));
    const trace::PausedWithData paused;
    return py::reinterpret_steal<py::object>(number_of(unpack(number)));
  });
}

} // namespace tracehost::python
