#include "trace/node_runner.h"

#include "program/autograd_ops.h"
#include "program/callback.h"
#include "program/checks.h"
#include "program/modes.h"
#include "shapes/fake_tensor.h"
#include "shapes/kernels.h"
#include "shapes/without_data.h"
#include "trace/op_traits.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <numeric>

namespace tracehost::trace {

namespace jit = torch::jit;

namespace {

/// Computed from sizes alone; everything else is a fake tensor.
bool is_real(const at::Tensor &t) { return !shapes::is_fake_tensor(t) && !t.is_meta(); }

std::string first_line(const std::string &text) { return text.substr(0, text.find('\n')); }

} // namespace

at::Tensor NodeRunner::fake_tensor(const at::Tensor &t, c10::IntArrayRef sizes) {
  if (!shapes::can_fake_tensor(t))
    return {};
  // Dense, with dimensions in memory in the order that `t` has them; expanded ones stay so.
  std::vector<std::int64_t> strides(sizes.size()), order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    if (t.size(a) == 1 || t.size(b) == 1) // says nothing
      return a > b;
    return t.stride(a) != t.stride(b) ? t.stride(a) < t.stride(b) : a > b;
  });
  std::int64_t step = 1;
  for (const std::int64_t d : order) {
    const auto at = static_cast<std::size_t>(d);
    const bool expanded = t.stride(d) == 0 && t.size(d) > 1;
    strides[at] = expanded ? 0 : step;
    step *= expanded ? 1 : std::max<std::int64_t>(sizes[at], 1);
  }
  return shapes::fake_tensor({sizes, strides}, t.scalar_type(), t.device());
}

c10::IValue NodeRunner::constant(const jit::Value *value) {
  return shapes::replaced(jit::toIValue(value).value_or(c10::IValue()), [](const at::Tensor &t) {
    return t.unsafeGetTensorImpl()->is_wrapped_number() ? t : fake_tensor(t, t.sizes());
  });
}

NodeRunner::NodeRunner(jit::Node *node) : node_(node) {
  const jit::Operator *op = node->maybeOperator();
  if (!op || is_call(*node) || is_autograd_op(*node) || node->kind() == c10::prim::PythonOp)
    return;
  schema_ = &op->schema();
  const auto handle = shapes::op_of(*schema_);
  if (handle && traits(*handle).inexact)
    inexact_ = *handle;
  try {
    operation_ = op->getOperation(node);
  } catch (const std::exception &e) {
    message_ = first_line(e.what());
  }
}

NodeRunner::Verdict NodeRunner::run(std::vector<c10::IValue> inputs,
                                    std::vector<c10::IValue> &outputs) {
  try {
    if (is_call(*node_))
      return call(inputs, outputs);
    if (is_autograd_op(*node_))
      return gradients(inputs, outputs);
    if (node_->kind().is_prim() && node_->kind() != c10::prim::NumToTensor)
      return structure(inputs, outputs);
    // A check holds at the sizes of the trace. What comes behind it is for those.
    if (node_->kind() == c10::Symbol::fromQualString("aten::set_grad_enabled") || is_mode(*node_) ||
        is_check(node_->kind().toQualString()))
      return Verdict::done;
    return operation(std::move(inputs), outputs);
  } catch (const c10::NotImplementedError &e) {
    message_ = first_line(e.what_without_backtrace());
    return Verdict::unknown;
  } catch (const c10::Error &e) {
    message_ = first_line(e.what_without_backtrace());
  } catch (const std::exception &e) {
    message_ = first_line(e.what());
  }
  return shapes::needs_data(message_).empty() ? Verdict::failed : Verdict::unknown;
}

/// The code itself never runs beside the trace: its results are as it promises.
NodeRunner::Verdict NodeRunner::call(std::vector<c10::IValue> &inputs,
                                     std::vector<c10::IValue> &outputs) {
  at::Device device = at::kCPU;
  for (c10::IValue &input : inputs)
    if (input.isTensor() && input.toTensor().defined())
      device = input.toTensor().device();
  const auto callback = callback_of(*node_);
  c10::List<at::Tensor> results;
  for (const Callback::Result &result : callback->results) {
    if (!result.is_exact()) {
      message_ = "it calls Python, and has no shape=";
      return Verdict::unknown;
    }
    std::vector<std::int64_t> sizes;
    for (const auto &size : *result.sizes)
      sizes.push_back(*size);
    results.push_back(shapes::contiguous_fake_tensor(sizes, result.dtype, device));
  }
  outputs = {results};
  return Verdict::done;
}

/// A gradient is as its tensor is.
NodeRunner::Verdict NodeRunner::gradients(std::vector<c10::IValue> &inputs,
                                          std::vector<c10::IValue> &outputs) {
  if (node_->outputs().empty())
    return Verdict::done;
  outputs = {shapes::replaced(inputs[inputs[0].isTensor() ? 0 : 1],
                              [](const at::Tensor &t) { return fake_tensor(t, t.sizes()); })};
  return Verdict::done;
}

NodeRunner::Verdict NodeRunner::structure(std::vector<c10::IValue> &inputs,
                                          std::vector<c10::IValue> &outputs) {
  switch (node_->kind()) {
  case c10::prim::Constant:
    outputs = {constant(node_->output())};
    return Verdict::done;
  case c10::prim::ListConstruct: {
    c10::impl::GenericList list(
        node_->output()->type()->expectRef<c10::ListType>().getElementType());
    for (const c10::IValue &item : inputs)
      list.push_back(item);
    outputs = {list};
    return Verdict::done;
  }
  case c10::prim::TupleConstruct:
    outputs = {c10::ivalue::Tuple::create(std::move(inputs))};
    return Verdict::done;
  case c10::prim::TupleUnpack:
    outputs = inputs[0].toTupleRef().elements().vec();
    return Verdict::done;
  case c10::prim::ListUnpack: {
    outputs.clear();
    const auto list = inputs[0].toList();
    for (std::size_t i = 0; i < list.size(); ++i)
      outputs.push_back(list.get(i));
    if (outputs.size() == node_->outputs().size())
      return Verdict::done;
    message_ = " (which gives as many results as the size says)";
    return Verdict::failed;
  }
  default:
    message_ = "not an op that can be run without data";
    return Verdict::unknown;
  }
}

NodeRunner::Verdict NodeRunner::operation(std::vector<c10::IValue> inputs,
                                          std::vector<c10::IValue> &outputs) {
  if (!operation_) {
    if (message_.empty())
      message_ = "no way to run it without data";
    return Verdict::unknown;
  }
  bool any = false, all_real = true;
  for (c10::IValue &input : inputs)
    input = shapes::replaced(input, [&](const at::Tensor &t) {
      any = true;
      all_real &= is_real(t);
      return t;
    });
  std::optional<shapes::WithData> of_sizes;
  if (any && all_real)
    of_sizes.emplace();
  const std::size_t results = schema_->returns().size();
  jit::Stack stack(std::make_move_iterator(inputs.begin()), std::make_move_iterator(inputs.end()));
  if (inexact_ && inexact_with(*inexact_, stack)) {
    message_ = "the sizes of its result depend on values";
    return Verdict::unknown;
  }
  (*operation_)(stack);
  outputs.assign(stack.end() - static_cast<std::ptrdiff_t>(std::min(results, stack.size())),
                 stack.end());
  return Verdict::done;
}

} // namespace tracehost::trace
