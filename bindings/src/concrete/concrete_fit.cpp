#include "base/errors.h"
#include "call/context_probe.h"
#include "concrete/concrete.h"
#include "signature/tensor_fit.h"
#include "trace/tracer.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

/// Whether a Concrete's graph is right for what it is called with and for what it captures now.

namespace tracehost::python {

namespace py = pybind11;

namespace {

std::string shape_text(const c10::IntArrayRef sizes) {
  return fmt::format("({}{})", sizes_text(sizes), sizes.size() == 1 ? "," : "");
}

/// Classes of tensors that ops treat alike.
bool is_plain(const void *type) { return type == THPVariableClass || type == ParameterClass; }

/// Whether a graph that was made for `meta` is right for `object`: all that tensors are compared by
/// but requires_grad, which ops find out themselves.
bool serves(const TensorMeta &meta, PyObject *object) {
  const void *type = Py_TYPE(object);
  return (type == meta.type || (is_plain(type) && is_plain(meta.type))) &&
         tracehost::fits(meta, THPVariable_Unpack(object));
}

/// A trace around the call that has some size as any takes those that this one needs as conditions.
bool sizes_are(const TensorMeta &meta, PyObject *tensor) {
  if (!trace::recording())
    return true;
  const py::tuple shape = py::reinterpret_borrow<py::object>(tensor).attr("shape");
  for (std::size_t d = 0; d < meta.sizes.size(); ++d)
    if (meta.sizes[d] != kAnySize && !py::object(shape[d]).equal(py::int_(meta.sizes[d])))
      return false;
  return true;
}

bool reads_capture(const SizeCondition &condition, std::size_t slots) {
  return std::any_of(
      condition.expression.begin(), condition.expression.end(), [&](const SizeTerm &term) {
        return term.op == SizeTerm::Op::size && static_cast<std::size_t>(term.slot) >= slots;
      });
}

} // namespace

TensorSpec spec_of(const TensorMeta &meta) {
  TensorSpec spec = TensorSpec::of(meta);
  if (meta.device.is_cpu())
    spec.device.reset();
  return spec;
}

/// Why the graph is not for such a tensor; empty: it is.
std::string Concrete::misfit(std::uint32_t slot, py::handle tensor) const {
  const TensorMeta &meta = signature().slots[slot];
  const at::Tensor &t = THPVariable_Unpack(tensor.ptr());
  const bool strides = same_strides(signature(), meta, t), leaf = same_leaf(signature(), meta, t);
  if (serves(meta, tensor.ptr()) && strides && leaf && sizes_are(meta, tensor.ptr()))
    return {};
  const std::string &name = input_names_[slot];
  if (t.layout() == at::kStrided && !meta.takes(t.sizes()))
    return fmt::format("Can not cast {} to {}. Tensor '{}' is not compatible with the shape this "
                       "function was traced with. Expected shape {}, but got shape {}. Request it "
                       "with a TensorSpec that has None for sizes that differ.",
                       spec_of(TensorMeta::of(t)).text(), spec_of(meta).text(), name,
                       shape_text(meta.sizes), shape_text(t.sizes()));
  const TensorMeta given = TensorMeta::of(t, Py_TYPE(tensor.ptr()), Py_TYPE(tensor.ptr())->tp_name);
  if (!strides || !leaf)
    return fmt::format("'{}': the body read {} of it, which was another at the trace", name,
                       leaf ? "strides" : "is_leaf");
  return fmt::format("Can not cast {} to {} of '{}'", given.text(), meta.text(), name);
}

/// Some conditions are on sizes of captures: check_sizes().
std::string Concrete::failed_condition(const Arguments &given) const {
  const auto slot = [&](std::uint32_t index) -> const at::Tensor & {
    return THPVariable_Unpack(given.tensors[index].ptr());
  };
  const InputSizes sizes(slot);
  for (const SizeCondition &condition : signature().conditions)
    if (!reads_capture(condition, given.tensors.size()) && !tracehost::holds(condition, sizes))
      return fmt::format("the graph is for sizes where {} ({})", text(condition, signature()),
                         condition.where);
  return {};
}

void Concrete::check_capture(std::size_t index, py::handle tensor) const {
  const CaptureSpec &spec = signature().captures[index];
  const bool is_tensor = tensor && THPVariable_Check(tensor.ptr());
  if (is_tensor && serves(spec.meta, tensor.ptr()))
    return;
  const std::string now =
      is_tensor ? "is " + TensorMeta::of(THPVariable_Unpack(tensor.ptr()), Py_TYPE(tensor.ptr()),
                                         Py_TYPE(tensor.ptr())->tp_name)
                              .text()
      : tensor ? fmt::format("is a {}", Py_TYPE(tensor.ptr())->tp_name)
               : "can't be found";
  raise(errors().capture, fmt::format("{}: the captured tensor {} was {} at the trace, and {} now. "
                                      "Get a new ConcreteFunction.",
                                      name_, spec.path, spec.meta.text(), now));
}

/// Ops find grad and inference mode, and whether they must be deterministic, when they run; the
/// rest was decided at the trace.
void Concrete::check_context() const {
  const Context &traced = signature().context;
  const Context now = require_context();
  if (traced == now)
    return;
  Context expected = traced;
  if (!sets_grad_mode_) {
    expected.grad = now.grad;
    expected.inference = now.inference;
    if (traced.inference != now.inference) { // keys that it switches
      expected.included = now.included;
      expected.excluded = now.excluded;
    }
  }
  expected.deterministic = now.deterministic;
  const auto differ = differences(expected, now);
  if (differ.empty())
    return;
  raise(errors().signature,
        fmt::format("{} was traced with {} {}, and is called with {}. Request another "
                    "ConcreteFunction in that context.",
                    name_, differ[0].field, differ[0].before, differ[0].after));
}

void Concrete::check_sizes(const torch::jit::Stack &inputs) const {
  const auto input = [&](std::uint32_t index) -> const at::Tensor & {
    return inputs[index].toTensor();
  };
  const InputSizes sizes(input);
  for (const SizeCondition &condition : signature().conditions)
    if (!tracehost::holds(condition, sizes))
      raise(errors().capture,
            fmt::format("{}: the graph is for sizes where {} ({}), which captured tensors do not "
                        "have now. Get a new ConcreteFunction.",
                        name_, text(condition, signature()), condition.where));
}

/// A graph is right for the gradients that were there, or not, at its trace.
void Concrete::check_grads(const torch::jit::Stack &inputs) const {
  for (const GradRead &read : signature().grads)
    if (const auto now = grad_state(inputs[read.input].toTensor()); now != read.state)
      raise(errors().signature,
            fmt::format("{}: {}, which the body reads, was {} at the trace, and is {}. Call "
                        "the Function, which has a graph for each.",
                        where_, grad_path(signature().input_path(read.input)), text(read.state),
                        text(now)));
}

} // namespace tracehost::python
