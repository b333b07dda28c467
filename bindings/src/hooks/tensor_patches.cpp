#include "hooks/tensor_patches.h"

#include "base/autograph.h"
#include "base/object.h"
#include "base/unobserved.h"
#include "base/user_line.h"
#include "hooks/forwarding.h"
#include "hooks/hidden_tracing.h"
#include "hooks/layout_patches.h"
#include "hooks/profile.h"
#include "numbers/traced_number.h"
#include "observe/recorder.h"
#include "shapes/fake_tensor.h"
#include "signature/tensor_meta.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/gradients.h"
#include "trace/numbers.h"
#include "trace/state.h"
#include "trace/tracer.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tracehost::python {
namespace {

namespace py = pybind11;

using Args = PyObject *const *;

std::string line() { return text(user_line()); }

/// `plain`, eager's answer (stolen), or what the body gets in its place: a traced size.
PyObject *traced_instead(PyObject *plain, PyObject *traced) {
  if (!traced)
    return plain;
  Py_DECREF(plain);
  return traced;
}

/// Whether the body gets traced numbers for the sizes of `t`, which depend on values. Raises where
/// such a read is unsupported.
bool has_read_sizes(const at::Tensor &t, const char *name) {
  if (!trace::recording() || trace::has_exact_sizes(t))
    return false;
  if (!trace::traces_reads())
    trace::check_size_read(t, name);
  return trace::traces_reads();
}

PyObject *read_shape(const at::Tensor &t) {
  return make_size(t.dim(),
                   [&](std::int64_t d) { return make_traced_number(trace::read_size(t, d)); });
}

PyObject *size_method(PyObject *original, const char *name, Args args, std::size_t nargsf,
                      PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  const bool read = has_read_sizes(t, name);
  PyObject *plain = plain_method(original, name, args, nargsf, kwnames);
  if (plain && read) {
    const bool all = !PyLong_Check(plain);
    return traced_instead(
        plain, all ? read_shape(t)
                   : make_traced_number(
                         trace::read_size(t, at::maybe_wrap_dim(PyLong_AsLong(args[1]), t.dim()))));
  }
  if (!plain || !trace::has_dynamic_sizes()) [[likely]]
    return plain;
  if (!PyLong_Check(plain))
    return traced_instead(plain, traced_shape_of(t));
  PyObject *dimension = args[1]; // positional or by name: the one argument
  if (!PyLong_Check(dimension))
    return plain;
  return traced_instead(plain,
                        traced_size_of(t, at::maybe_wrap_dim(PyLong_AsLong(dimension), t.dim())));
}

PyObject *numel_method(PyObject *original, const char *name, Args args, std::size_t nargsf,
                       PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  if (has_read_sizes(t, name))
    return make_traced_number(trace::read_numel(t));
  PyObject *plain = plain_method(original, name, args, nargsf, kwnames);
  const auto traced = plain ? trace::traced_numel(t) : std::nullopt;
  return traced_instead(plain, traced ? make_traced_number(*traced) : nullptr);
}

PyObject *shape_property(PyObject *original, const char *name, PyObject *tensor, PyObject *value) {
  const at::Tensor &t = THPVariable_Unpack(tensor);
  if (!value && has_read_sizes(t, name))
    return read_shape(t);
  PyObject *plain = plain_property(original, name, tensor, value);
  return plain ? traced_instead(plain, traced_shape_of(t)) : nullptr;
}

/// By numel(), which may be a traced size.
PyObject *nbytes_property(PyObject *original, const char *name, PyObject *tensor, PyObject *value) {
  if (value || !trace::recording())
    return plain_property(original, name, tensor, value);
  const Owned count(PyObject_CallMethod(tensor, "numel", nullptr));
  const Owned size(PyLong_FromSize_t(THPVariable_Unpack(tensor).itemsize()));
  return count && size ? PyNumber_Multiply(count.get(), size.get()) : nullptr;
}

/// What autograd records of the result of a block depends on which way a call takes: the graph
/// checks that it is as in this call. Returns what eager has in place of the tensor.
Owned recorded_in_eager(PyObject *tensor, const char *name) {
  const at::Tensor &t = THPVariable_Unpack(tensor);
  if (!trace::recording())
    return Owned(Py_NewRef(tensor));
  if (trace::records_by_block(t)) {
    trace::need_number(trace::read_requires_grad(t), name);
    trace::need_number(trace::read_is_leaf(t), name);
  }
  return Owned(THPVariable_Wrap(trace::in_eager(t)));
}

PyObject *leaf_property(PyObject *original, const char *name, PyObject *tensor, PyObject *value) {
  trace::note_leaf_read();
  const Owned asked = recorded_in_eager(tensor, name);
  return asked ? plain_property(original, name, asked.get(), value) : nullptr;
}

/// Shares the tensor's memory, or copies it: numpy(), data_ptr(), storage().
PyObject *memory_method(PyObject *, const char *name, Args args, std::size_t, PyObject *) {
  trace::reject_read(THPVariable_Unpack(args[0]), std::string("Tensor.") + name);
}

/// Whether the number is an int past 63 bits: one of uint64, which no number of a graph can be.
bool is_past_int64(const at::Tensor &t) {
  if (t.scalar_type() != at::kUInt64 || shapes::is_fake_tensor(t))
    return false;
  const trace::PausedWithData paused;
  return t.item().toUInt64() > std::numeric_limits<std::int64_t>::max();
}

/// Whether item() is a complex number, which no number of a graph can be.
bool is_complex_number(const at::Tensor &t) {
  return trace::recording() && !trace::abandoned() && trace::traces_reads() && t.numel() == 1 &&
         at::isComplexType(t.scalar_type());
}

/// As where the body needs the value of a float: the trace serves its own call.
PyObject *complex_item(const at::Tensor &t) {
  std::array<double, 2> parts{};
  for (const bool imaginary : {false, true}) {
    const Owned number(read_number(imaginary ? at::imag(t) : at::real(t)));
    if (!number)
      return nullptr;
    const at::Tensor &read = THPVariable_Unpack(number.get());
    try {
      trace::need_number(read, "Tensor.item of a complex tensor");
    } catch (const trace::Abandoned &) { // the body continues without a trace
    }
    const trace::PausedWithData paused;
    parts[imaginary] = read.item().toDouble();
  }
  return PyComplex_FromDoubles(parts[0], parts[1]);
}

PyObject *item_method(PyObject *original, const char *, Args args, std::size_t nargsf,
                      PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  Recorder *recorder = Profile::recorder();
  if (PyVectorcall_NARGS(nargsf) == 1 && !kwnames && is_complex_number(t))
    return complex_item(t);
  const bool alone = PyVectorcall_NARGS(nargsf) == 1 && !kwnames && can_be_read(t);
  if (alone && recorder && is_past_int64(t)) {
    recorder->paths().serves_once("reads an int past 63 bits at " + text(user_line()));
    const trace::PausedWithData paused;
    return PyObject_Vectorcall(original, args, nargsf, kwnames);
  }
  if (alone && trace::traces_reads())
    return read_number(t);
  return PyObject_Vectorcall(original, args, nargsf, kwnames);
}

PyObject *tolist_method(PyObject *, const char *, Args args, std::size_t nargsf,
                        PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  const bool alone = PyVectorcall_NARGS(nargsf) == 1 && !kwnames;
  if (alone && trace::traces_reads() && can_be_listed(t))
    return read_numbers(t);
  trace::reject_read(t, "Tensor.tolist");
}

/// For memory that the body made, the version counts only the body's own writes.
PyObject *version_property(PyObject *original, const char *name, PyObject *tensor, PyObject *) {
  if (trace::made_its_memory(THPVariable_Unpack(tensor)))
    return plain_property(original, name, tensor, nullptr);
  trace::reject_read(
      fmt::format("the body reads Tensor.{} at {}, which differs at each call. Move the "
                  "read out of the function.",
                  name, line()));
}

PyObject *unrecorded_method(PyObject *, const char *name, Args, std::size_t, PyObject *) {
  trace::reject(
      trace::Rejection::trace,
      fmt::format("Tensor.{} at {} is not recorded in a graph. Do it outside of the function.",
                  name, line()));
}

/// Eager's own errors come from eager.
bool may_require_grad(const at::Tensor &t) {
  return t.is_leaf() && (at::isFloatingType(t.scalar_type()) || at::isComplexType(t.scalar_type()));
}

void require_grad(const at::Tensor &t, bool on) {
  trace::note_leaf_read();
  trace::set_requires_grad(t, on);
}

PyObject *requires_grad_method(PyObject *original, const char *, Args args, std::size_t nargsf,
                               PyObject *kwnames) {
  const auto &t = THPVariable_Unpack(args[0]);
  const Py_ssize_t given = PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  const bool on = given == 1 || (given == 2 && args[1] == Py_True);
  const bool known = given == 1 || (given == 2 && PyBool_Check(args[1]));
  if (!known || t.requires_grad() == on || !may_require_grad(t))
    return PyObject_Vectorcall(original, args, nargsf, kwnames);
  require_grad(t, on);
  return Py_NewRef(args[0]);
}

PyObject *requires_grad_property(PyObject *original, const char *name, PyObject *tensor,
                                 PyObject *value) {
  const auto &t = THPVariable_Unpack(tensor);
  if (!value) {
    const Owned asked = recorded_in_eager(tensor, name);
    return asked ? original_property(original, asked.get(), nullptr) : nullptr;
  }
  if (!PyBool_Check(value) || t.requires_grad() == (value == Py_True) || !may_require_grad(t))
    return original_property(original, tensor, value);
  require_grad(t, value == Py_True);
  return Py_NewRef(Py_None);
}

/// What of `t` differs in `data`, "" if nothing that a signature holds.
std::string kind_change(const at::Tensor &t, const at::Tensor &data) {
  const auto was = TensorMeta::of(t).text(), is = TensorMeta::of(data.detach()).text();
  const bool same = t.scalar_type() == data.scalar_type() && t.sizes() == data.sizes() &&
                    t.device() == data.device() && t.layout() == data.layout();
  return same ? "" : fmt::format("from {} to {}", was, is);
}

PyObject *data_property(PyObject *original, const char *, PyObject *tensor, PyObject *value) {
  const auto &t = THPVariable_Unpack(tensor);
  if (!value)
    return THPVariable_Wrap(trace::data_of(t));
  if (!THPVariable_Check(value))
    return original_property(original, tensor, value);
  const auto &data = THPVariable_Unpack(value);
  std::string change;
  {
    const trace::Paused paused;
    change = kind_change(t, data);
  }
  if (!change.empty())
    trace::reject(trace::Rejection::trace,
                  fmt::format("the body sets Tensor.data at {}, and changes the tensor by that {}. "
                              "Do it outside of the function, or give the new tensor another name.",
                              line(), change));
  trace::set_data(t, data);
  return Py_NewRef(Py_None);
}

/// A tensor with a gradient is an input of the graph, or made by it; the gradient is read there.
PyObject *grad_property(PyObject *original, const char *name, PyObject *tensor, PyObject *value) {
  const at::Tensor &t = THPVariable_Unpack(tensor);
  if (value) {
    trace::check_grad_is_set(t,
                             THPVariable_Check(value) ? THPVariable_Unpack(value) : at::Tensor());
    trace::meet(t);
  }
  const Owned owner(THPVariable_Wrap(trace::owner_of_grad(t)));
  Owned result(plain_property(original, name, owner.get(), value));
  if (!result)
    return nullptr;
  if (value)
    trace::written_grad(t);
  else
    trace::read_grad(t);
  return result.release();
}

/// The result of a block has the gradient in the trace, and what eager has in its place behind it.
PyObject *retain_grad_method(PyObject *original, const char *name, Args args, std::size_t nargsf,
                             PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  const at::Tensor eager = trace::in_eager(t);
  const Owned owner(THPVariable_Wrap(trace::owner_of_grad(t)));
  PyObject *self = owner.get();
  const bool alone = PyVectorcall_NARGS(nargsf) == 1 && !kwnames;
  PyObject *done = plain_method(original, name, alone ? &self : args, nargsf, kwnames);
  if (!done)
    return nullptr;
  eager.retain_grad();
  trace::retained_grad(t);
  return done;
}

PyObject *retains_grad_property(PyObject *original, const char *name, PyObject *tensor,
                                PyObject *value) {
  const Owned asked = recorded_in_eager(tensor, name);
  if (!asked)
    return nullptr;
  const Owned owner(THPVariable_Wrap(trace::owner_of_grad(THPVariable_Unpack(tensor))));
  return plain_property(original, name, owner.get(), value);
}

PyObject *described(PyObject *tensor) {
  const auto &t = THPVariable_Unpack(tensor);
  const bool no_data = trace::in_block() && trace::without_data();
  return PyUnicode_FromString(
      fmt::format("<traced tensor {}{}>", TensorMeta::of(t).text(),
                  no_data ? ", no data: in a branch or loop that is staged" : "")
          .c_str());
}

/// Whether a text that is made now is for people: an argument of print() or of a logger, or what
/// the code of a library shows. Else the body may keep the text, or return it.
bool is_for_people() { return Reads::printing() || is_shown() || !is_made_by_user(); }

/// torch's own text. Its code, which imports modules and switches modes, is no part of the body.
PyObject *plain_text(PyObject *original, Args args, std::size_t nargsf, PyObject *kwnames) {
  const trace::PausedWithData paused;
  const Unobserved unobserved;
  return PyObject_Vectorcall(original, args, nargsf, kwnames);
}

PyObject *repr_method(PyObject *original, const char *, Args args, std::size_t nargsf,
                      PyObject *kwnames) {
  Recorder *recorder = Profile::recorder();
  if (!recorder || !trace::recording() || is_for_people())
    return described(args[0]);
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  if (!trace::traces_reads() || trace::without_data() || shapes::is_fake_tensor(t))
    trace::reject_read(t, "Tensor.__repr__");
  recorder->paths().serves_once("makes a text of a tensor at " + line());
  return plain_text(original, args, nargsf, kwnames);
}

/// torch formats a tensor without dimensions as the number that it has.
PyObject *format_method(PyObject *original, const char *, Args args, std::size_t nargsf,
                        PyObject *kwnames) {
  const at::Tensor &t = THPVariable_Unpack(args[0]);
  const bool is_number = t.dim() == 0 && trace::traces_reads() && can_be_read(t);
  const bool bare = !is_number && PyVectorcall_NARGS(nargsf) == 2 && PyUnicode_Check(args[1]) &&
                    PyUnicode_GET_LENGTH(args[1]) == 0;
  return bare ? repr_method(original, "", args, nargsf, kwnames)
              : PyObject_Vectorcall(original, args, nargsf, kwnames);
}

reprfunc original_size_repr = nullptr; ///< torch.Size's

/// torch's reads the number of each size.
PyObject *size_repr(PyObject *shape) {
  bool traced = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i)
    traced |= is_traced_number(PyTuple_GET_ITEM(shape, i));
  if (!traced) [[likely]]
    return original_size_repr(shape);
  PyObject *items = PySequence_List(shape);
  PyObject *text = items ? PyUnicode_FromFormat("torch.Size(%R)", items) : nullptr;
  Py_XDECREF(items);
  return text;
}

} // namespace

void install_tensor_patches() {
  const py::object tensor = py::module_::import("torch").attr("Tensor");
  auto *type = reinterpret_cast<PyTypeObject *>(tensor.ptr());
  forward_method(type, "size", size_method);
  for (const char *name : {"numel", "nelement"})
    forward_method(type, name, numel_method);
  forward_method(type, "item", item_method);
  forward_method(type, "tolist", tolist_method);
  for (const char *name : {"numpy", "__array__", "data_ptr", "untyped_storage", "_typed_storage",
                           "storage", "__dlpack__", "__reduce_ex__", "__deepcopy__"})
    forward_method(type, name, memory_method);
  for (const char *name : {"register_hook", "register_post_accumulate_grad_hook"})
    forward_method(type, name, unrecorded_method);
  forward_object_method(type, "retain_grad", retain_grad_method);
  forward_method(type, "requires_grad_", requires_grad_method);
  forward_method(type, "__repr__", repr_method);
  forward_method(type, "__format__", format_method);

  forward_property(type, "shape", shape_property);
  for (const char *name : {"is_leaf", "grad_fn"})
    forward_object_property(type, name, leaf_property);
  forward_object_property(type, "retains_grad", retains_grad_property);
  forward_property(type, "nbytes", nbytes_property);
  forward_property(type, "_version", version_property);
  forward_property(type, "requires_grad", requires_grad_property);
  forward_property(type, "data", data_property);
  for (const char *name : {"grad", "_grad"})
    forward_object_property(type, name, grad_property);

  install_layout_patches();
  original_size_repr = std::exchange(THPSizeType.tp_repr, size_repr);
  hide_tracing();
}

} // namespace tracehost::python
