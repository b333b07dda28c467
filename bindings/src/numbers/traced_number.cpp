#include "numbers/traced_number.h"

#include "base/forget_error.h"
#include "base/object.h"
#include "numbers/numbers_left.h"
#include "shapes/fake_tensor.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/eager_region.h"
#include "trace/messages.h"
#include "trace/numbers.h"
#include "trace/tracer.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

namespace tracehost::python {
namespace {

namespace py = pybind11;

/// For pybind11.
py::object wrap(PyObject *stolen) { return py::reinterpret_steal<py::object>(stolen); }

bool is_read(const at::Tensor &number) {
  return trace::recording() && trace::is_traced_number(number);
}
bool is_live_size(const at::Tensor &number) {
  return trace::recording() && trace::is_traced_size(number);
}
/// A number that is used must not be of a block that is closed.
void check_left(const at::Tensor &number) {
  if (trace::recording() && !trace::is_traced_number(number) && !trace::is_traced_size(number))
    trace::check_not_of_block(number);
}

} // namespace

bool is_live(const at::Tensor &number) { return is_read(number) || is_live_size(number); }

bool is_number(PyObject *tensor) {
  if (is_traced_number(tensor))
    return true;
  PyObject **attributes = _PyObject_GetDictPtr(tensor);
  if (!attributes || !*attributes)
    return false;
  const Owned mark(PyUnicode_InternFromString("_tracehost_number")); // set by staging/state.py
  return mark && PyDict_Contains(*attributes, mark.get()) == 1;
}

PyObject *number_of(const at::Tensor &t) { return python_number(t.item()); }

PyObject *make_traced_number(const at::Tensor &size) {
  py::object result;
  {
    const trace::PausedWithData paused;
    const py::handle type(reinterpret_cast<PyObject *>(traced_number_class()));
    result = type.attr("_make_subclass")(type, size);
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
  Owned shape(make_size(tensor.dim(), [&](std::int64_t d) {
    PyObject *size = traced_size_of(tensor, d);
    any |= size != nullptr;
    return size ? size : PyLong_FromLongLong(tensor.size(d));
  }));
  return any ? shape.release() : nullptr;
}

PyObject *python_number(const c10::IValue &value) {
  return value.isBool()       ? PyBool_FromLong(value.toBool())
         : value.isInt()      ? PyLong_FromLongLong(value.toInt())
         : value.isUnsigned() ? PyLong_FromUnsignedLongLong(value.toUInt()) // past 63 bits
                              : PyFloat_FromDouble(value.toDouble());
}

PyObject *value_of(PyObject *number) {
  const auto value = trace::value_of_number(THPVariable_Unpack(number));
  PyObject *made = value ? python_number(*value) : nullptr;
  if (!made)
    forget_error();
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
  Owned held(object);
  const auto plain = [&](PyObject *size) {
    return is_traced_number(size) ? PyLong_FromLongLong(number_of(THPVariable_Unpack(size), why))
                                  : Py_NewRef(size);
  };
  if (Py_TYPE(object) != &THPSizeType)
    return plain(object);
  return make_size(PyTuple_GET_SIZE(object),
                   [&](Py_ssize_t d) { return plain(PyTuple_GET_ITEM(object, d)); });
}

/// The same of a body that continues without a trace.
static PyObject *lists_of(const at::Tensor &t) {
  if (t.dim() == 0)
    return number_of(t);
  Owned made(PyList_New(0));
  for (std::int64_t i = 0; made && i < t.size(0); ++i) {
    const Owned row(lists_of(t[i]));
    if (!row || PyList_Append(made.get(), row.get()) != 0)
      return nullptr;
  }
  return made.release();
}

PyObject *read_number(const at::Tensor &t) { return make_traced_number(trace::read_number(t)); }

/// `elements`: those of the tensor that are left; takes as many as the dimensions from `depth` on
/// hold.
static py::object lists_of(c10::IntArrayRef sizes, std::size_t depth, const at::Tensor *&elements) {
  if (depth == sizes.size())
    return wrap(read_number(*elements++));
  py::list made;
  for (std::int64_t i = 0; i < sizes[depth]; ++i)
    made.append(lists_of(sizes, depth + 1, elements));
  return made;
}

PyObject *read_numbers(const at::Tensor &t) {
  try {
    trace::check_sizes(t, "Tensor.tolist");
  } catch (const trace::Abandoned &) {
    const trace::PausedWithData paused;
    return lists_of(t);
  }
  for (std::int64_t d = 0; d < t.dim(); ++d) // without elements there is no op that shows how many
    if (const auto size = trace::traced_size(t, d))
      number_of(*size, "Tensor.tolist");
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
         (trace::has_exact_sizes(t) || !shapes::is_fake_tensor(t));
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
           trace::can_be_checked(THPVariable_Unpack(number.ptr()));
  });
  // Whether a number still stands for a value of the graph being traced.
  m.def("_settle_kind", [](const at::Tensor &number) {
    if (trace::recording())
      trace::settle_kind(number);
  });
  m.def("_number_is_live", &is_live);
  m.def("_number_is_size", &is_live_size);
  m.def("_number_is_read", &is_read);
  m.def("_number_tensor", &trace::tensor_of_number);
  m.def("_read_number", [](const at::Tensor &t) -> py::object {
    if (!trace::recording()) // the body runs on without a graph
      return py::cast(t).attr("item")();
    return wrap(read_number(t));
  });
  m.def("_can_be_read",
        [](const at::Tensor &t) { return can_be_read(t) && trace::traces_reads(); });
  m.def("_number_is_constant", &trace::is_constant_number);
  m.def("_number_needed",
        [](const at::Tensor &number, const std::string &how) { return wrap(needed(number, how)); });
  m.def("_as_size", [](const py::object &object) {
    const auto size = py::cast<at::Tensor>(object);
    return is_live_size(size) ? wrap(make_traced_number(size)) : object;
  });
  m.def("_specialize_size",
        [](const at::Tensor &size, const std::string &why) { return number_of(size, why); });
  // The value, on its way to an op as an argument by position or name, or as an element of one.
  m.def("_number_given",
        [](const at::Tensor &number, const py::object &argument, std::int64_t element) {
          check_left(number);
          trace::ArgumentPlace place{0, "", element};
          if (py::isinstance<py::str>(argument))
            place.name = py::cast<std::string>(argument);
          else
            place.index = py::cast<std::size_t>(argument);
          return wrap(python_number(trace::give_number(number, std::move(place))));
        });
  m.def("_number_float", [](const at::Tensor &number) {
    return is_read(number) ? py::float_(trace::real_of_number(number))
                           : py::float_(wrap(needed(number, "float()")));
  });
  m.def("_number_abandons", [](const at::Tensor &number, const std::string &how) {
    check_left(number);
    trace::abandon_number(how);
  });
  m.def("_number_has_no_text", [](const at::Tensor &number) {
    const bool in_block = trace::active() && trace::in_block() && trace::without_data();
    return in_block || !trace::value_of_number(number);
  });
  // Of a trace from specs, outside of a block: nothing is there for which the graph could make a
  // text.
  m.def("_number_is_unknown", [](const at::Tensor &number) {
    return trace::active() && !trace::abandoned() && !trace::in_block() &&
           !trace::value_of_number(number);
  });
  // Where it has no text: of a mark in what a block raises.
  m.def("_number_text", [](const at::Tensor &number, const std::string &spec,
                           const std::string &kind) {
    return is_live(number) ? trace::mark_of_text(number, spec, kind) : "<traced " + kind + ">";
  });
  m.def("_number_index", [](const at::Tensor &number) {
    if (is_read(number))
      return trace::index_of_number(number);
    check_left(number);
    // torch.tensor() reads with the tracer switched off.
    if (trace::active() && !trace::abandoned() && !trace::is_traced_size(number))
      trace::need_number(number, "by C code");
    return trace::index_of_size(number);
  });
  m.def("_number_value", [](const at::Tensor &number) {
    if (trace::in_eager_region() && is_live_size(number))
      return py::object(py::int_(trace::specialize_size(number, "a size in init_scope")));
    const trace::PausedWithData paused;
    return wrap(number_of(number));
  });
}

} // namespace tracehost::python
