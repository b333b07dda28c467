#include "hooks/layout_patches.h"

#include "base/object.h"
#include "hooks/forwarding.h"
#include "numbers/traced_number.h"
#include "trace/block.h"
#include "trace/eager_region.h"
#include "trace/numbers.h"
#include "trace/state.h"
#include "trace/tracer.h"

#include <ATen/WrapDimUtils.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <pybind11/pybind11.h>

#include <string_view>

namespace tracehost::python {
namespace {

namespace py = pybind11;

using Args = PyObject *const *;

/// Arguments after the first one, positional or by name.
Py_ssize_t more(std::size_t nargsf, PyObject *kwnames) {
  return PyVectorcall_NARGS(nargsf) - 1 + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
}

/// What `contiguous()` and `is_contiguous()` ask for: their one argument, if it is there.
at::MemoryFormat format_of(Args args, std::size_t nargsf, PyObject *kwnames) {
  if (more(nargsf, kwnames) == 0 || !THPMemoryFormat_Check(args[1]))
    return at::MemoryFormat::Contiguous;
  return reinterpret_cast<THPMemoryFormat *>(args[1])->memory_format;
}

/// The numbers of the graph in place of `plain`, an int for a dimension or a tuple of all.
PyObject *traced_strides(const at::Tensor &t, PyObject *plain, Args args) {
  if (PyLong_Check(plain)) {
    const std::int64_t d = at::maybe_wrap_dim(PyLong_AsLong(args[1]), t.dim());
    return PyErr_Occurred() ? nullptr : make_traced_number(trace::read_stride(t, d));
  }
  py::tuple strides(static_cast<std::size_t>(t.dim()));
  for (std::int64_t d = 0; d < t.dim(); ++d)
    strides[static_cast<std::size_t>(d)] =
        py::reinterpret_steal<py::object>(make_traced_number(trace::read_stride(t, d)));
  return strides.release().ptr();
}

PyObject *stride_method(PyObject *original, const char *name, Args args, std::size_t nargsf,
                        PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  if (!trace::recording() || !trace::lies_by_sizes(t, trace::Layout::strides, name)) {
    trace::note_strides_read(t);
    return plain_method(original, name, args, nargsf, kwnames);
  }
  const Owned plain(plain_method(original, name, args, nargsf, kwnames));
  return plain ? traced_strides(t, plain.get(), args) : nullptr;
}

PyObject *is_contiguous_method(PyObject *original, const char *name, Args args, std::size_t nargsf,
                               PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  const auto format = format_of(args, nargsf, kwnames);
  // Another memory format asks for sizes of 1, too.
  const bool is_default = format == at::MemoryFormat::Contiguous;
  const auto read = is_default ? trace::Layout::contiguity : trace::Layout::strides;
  if (trace::recording() && trace::lies_by_block(t)) {
    // Not a number for an `if` to stage: on the other side the tensor would lie as in this call.
    trace::need_number(trace::read_contiguity(t, format), name);
  } else if (trace::recording() && trace::lies_by_sizes(t, read, name)) {
    const Owned plain(plain_method(original, name, args, nargsf, kwnames));
    return plain ? make_traced_number(trace::read_contiguity(t, format)) : nullptr;
  }
  if (is_default)
    trace::note_contiguity_read(t);
  else
    trace::note_strides_read(t);
  return plain_method(original, name, args, nargsf, kwnames);
}

PyObject *offset_method(PyObject *original, const char *name, Args args, std::size_t nargsf,
                        PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  if (trace::recording() && trace::lies_by_sizes(t, trace::Layout::strides, name)) {
    trace::check_memory_is_own(t, name);
    const Owned plain(plain_method(original, name, args, nargsf, kwnames));
    return plain ? make_traced_number(trace::read_offset(t)) : nullptr;
  }
  trace::check_memory_read(t, name);
  return plain_method(original, name, args, nargsf, kwnames);
}

/// Whether the result of a block is a view depends on which way a call takes.
void check_view_read(const at::Tensor &t, const char *name) {
  if (trace::recording() && trace::is_of_block(t))
    trace::reject_read(t, std::string("Tensor.") + name);
  trace::check_memory_read(t, name);
}

PyObject *is_view_method(PyObject *original, const char *name, Args args, std::size_t nargsf,
                         PyObject *kwnames) {
  check_view_read(THPVariable_Unpack(args[0]), name);
  return plain_method(original, name, args, nargsf, kwnames);
}

PyObject *base_property(PyObject *original, const char *name, PyObject *tensor, PyObject *value) {
  if (!value)
    check_view_read(THPVariable_Unpack(tensor), name);
  return plain_property(original, name, tensor, value);
}

/// A contiguous tensor is itself the result, which depends on strides. torch records the op past
/// the op hook. The tracer would continue with the op's result, although the body has the tensor
/// itself. In a call with other strides, that result is a copy.
PyObject *contiguous_method(PyObject *original, const char *name, Args args, std::size_t nargsf,
                            PyObject *kwnames) {
  if (!trace::recording())
    return plain_method(original, name, args, nargsf, kwnames);
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  trace::value_of(t); // known as a capture, if it is one
  const auto format = format_of(args, nargsf, kwnames);
  if (!t.is_contiguous(format))
    return PyObject_Vectorcall(original, args, nargsf, kwnames);
  if (trace::lies_by_values(t))
    trace::need_number(trace::read_contiguity(t, format), "contiguous()");
  else if (format == at::MemoryFormat::Contiguous)
    trace::note_contiguity_read(t);
  else
    trace::note_strides_read(t);
  return Py_NewRef(args[0]);
}

/// By the sizes, which may be traced.
PyObject *is_same_size_method(PyObject *original, const char *, Args args, std::size_t nargsf,
                              PyObject *kwnames) {
  const bool sized =
      trace::recording() && (trace::has_dynamic_sizes() || trace::has_unknown_sizes());
  if (!sized || more(nargsf, kwnames) != 1 || !THPVariable_Check(args[1])) [[likely]]
    return PyObject_Vectorcall(original, args, nargsf, kwnames);
  const Owned a(PyObject_GetAttrString(args[0], "shape"));
  const Owned b(a ? PyObject_GetAttrString(args[1], "shape") : nullptr);
  return b ? PyObject_RichCompare(a.get(), b.get(), Py_EQ) : nullptr;
}

// ---- Functions of torch

using Forward = PyObject *(*)(PyObject *original, Args args, Py_ssize_t count, PyObject *kwnames);

/// A function that `forward` is in place of, in the module `torch`.
template <Forward forward> struct Forwarded {
  static constinit inline PyObject *original = nullptr;

  static PyObject *call(PyObject *, Args args, Py_ssize_t count, PyObject *kwnames) {
    return forward(original, args, count, kwnames);
  }

  static void install(const char *name) {
    static constinit PyMethodDef method{nullptr, nullptr, METH_FASTCALL | METH_KEYWORDS, nullptr};
    method.ml_name = name;
    // A cast of a function pointer is no constant expression.
    method.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(call));
    const py::module_ torch = py::module_::import("torch");
    original = py::object(torch.attr(name)).release().ptr();
    torch.attr(name) = py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
  }
};

PyObject *call_plain(PyObject *original, Args args, Py_ssize_t count, PyObject *kwnames) {
  return PyObject_Vectorcall(original, args, static_cast<std::size_t>(count), kwnames);
}

PyObject *numel_function(PyObject *original, Args args, Py_ssize_t count, PyObject *kwnames) {
  if (trace::guarded() && count == 1 && !kwnames && THPVariable_Check(args[0])) [[unlikely]]
    return PyObject_CallMethod(args[0], "numel", nullptr);
  return call_plain(original, args, count, kwnames);
}

PyObject *is_same_size_function(PyObject *original, Args args, Py_ssize_t count,
                                PyObject *kwnames) {
  if (trace::guarded() && count == 2 && !kwnames && THPVariable_Check(args[0])) [[unlikely]]
    return PyObject_CallMethod(args[0], "is_same_size", "O", args[1]);
  return call_plain(original, args, count, kwnames);
}

/// torch._check() and its kin take a bool alone: a comparison of traced numbers is checked.
PyObject *check_function(PyObject *original, Args args, Py_ssize_t count, PyObject *kwnames) {
  if (count < 2 || !trace::guarded() || !is_traced_number(args[1])) [[likely]]
    return call_plain(original, args, count, kwnames);
  const int holds = PyObject_IsTrue(args[1]);
  if (holds < 0)
    return nullptr;
  py::tuple given(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    given[static_cast<std::size_t>(i)] = py::reinterpret_borrow<py::object>(
        i == 1 ? (holds ? Py_True : Py_False) : args[static_cast<std::size_t>(i)]);
  return call_plain(original, &PyTuple_GET_ITEM(given.ptr(), 0), count, kwnames);
}

} // namespace

void install_layout_patches() {
  const py::object tensor = py::module_::import("torch").attr("Tensor");
  auto *type = reinterpret_cast<PyTypeObject *>(tensor.ptr());
  forward_method(type, "stride", stride_method);
  forward_method(type, "is_contiguous", is_contiguous_method);
  forward_method(type, "storage_offset", offset_method);
  forward_method(type, "_is_view", is_view_method);
  forward_method(type, "contiguous", contiguous_method);
  forward_method(type, "is_same_size", is_same_size_method);
  forward_property(type, "_base", base_property);

  Forwarded<numel_function>::install("numel");
  Forwarded<is_same_size_function>::install("is_same_size");
  Forwarded<check_function>::install("_check_with");
}

} // namespace tracehost::python
