#include "trace/gradients.h"

#include "trace/block.h"
#include "trace/call.h"
#include "trace/trace.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <typeinfo>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

using Tensors = std::vector<at::Tensor>;

template <class F> void each_defined(const EngineCall &call, const F &f) {
  for (const Tensors *tensors : {&call.roots, &call.grads, &call.inputs})
    for (const at::Tensor &t : *tensors)
      if (t.defined())
        f(t);
}

using torch::autograd::Node;

/// A shared or an intrusive pointer, by torch's version.
using NodeRef = decltype(torch::autograd::Edge::function);

/// What a backward pass from `roots` may run. The references matter: a leaf that is a root has its
/// node for as long as somebody holds it.
std::vector<NodeRef> reached_from(const Tensors &roots) {
  std::unordered_set<const Node *> seen;
  std::vector<NodeRef> reached;
  const auto add = [&](const NodeRef &node) {
    if (node && seen.insert(node.get()).second)
      reached.push_back(node);
  };
  for (const at::Tensor &t : roots)
    add(torch::autograd::impl::gradient_edge(t).function);
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const NodeRef node = reached[i];
    for (const torch::autograd::Edge &edge : node->next_edges())
      add(edge.function);
  }
  return reached;
}

/// The leaves that a backward pass from `roots` may reach.
Tensors leaves_of(const Tensors &roots) {
  Tensors leaves;
  for (const NodeRef &node : reached_from(roots))
    if (const auto *leaf = dynamic_cast<torch::autograd::AccumulateGrad *>(node.get()))
      leaves.push_back(leaf->variable);
  return leaves;
}

/// Whether the node is torch's own, and runs no hook.
bool computes_alone(Node &node) {
  const std::string_view type = typeid(node).name(); // mangled
  const bool known = dynamic_cast<torch::autograd::AccumulateGrad *>(&node) ||
                     dynamic_cast<torch::autograd::CopySlices *>(&node) ||
                     type.find("torch8autograd9generated") != type.npos;
  return known && node.pre_hooks().empty() && node.post_hooks().empty() &&
         node.tensor_pre_hooks().empty() && node.retains_grad_hooks().empty();
}

std::int64_t version_of(const at::Tensor &t) {
  return t.defined() && !t.is_inference() ? t._version() : 0;
}

[[noreturn]] void reject_here(const std::string &what, const std::string &cure) {
  reject(Rejection::trace, fmt::format("{} at {}. {}", what, text(current->here()), cure));
}

void check(const EngineCall &call) {
  if (in_block())
    reject(Rejection::staging,
           fmt::format("backward() or autograd.grad() in a branch or loop that is staged, at {}. "
                       "Compute the loss there, and the gradients after it.",
                       text(current->here())));
  if (without_data())
    reject_here("backward() or autograd.grad() in a trace without example data "
                "(get_concrete_function, warm_up),",
                "Call the function once with such arguments instead.");
  each_defined(call, [](const at::Tensor &t) {
    if (t.key_set().has(c10::DispatchKey::FuncTorchBatched) ||
        t.key_set().has(c10::DispatchKey::Batched))
      reject_here("autograd.grad(is_grads_batched=True), or in vmap,",
                  "Call autograd.grad once for each row, or outside of the function.");
  });
}

} // namespace

void Gradients::about_to_run(const EngineCall &call) {
  leaves_.clear();
  if (!call.accumulates)
    return;
  for (const at::Tensor &t : call.inputs.empty() ? leaves_of(call.roots) : call.inputs) {
    met(t);
    const at::Tensor &grad = grad_of(t);
    leaves_.push_back({t, grad.unsafeGetTensorImpl(), version_of(grad)});
  }
}

/// A leaf that got a gradient from the backward pass has one now, independent of its state before
/// the call.
void Gradients::has_run() {
  ++runs_;
  for (const Leaf &leaf : leaves_) {
    const at::Tensor &grad = grad_of(leaf.tensor);
    const bool arrived = grad.defined() && (grad.unsafeGetTensorImpl() != leaf.grad ||
                                            version_of(grad) != leaf.version);
    if (arrived)
      met(leaf.tensor).sure = true;
  }
  leaves_.clear();
}

Gradients::Known &Gradients::met(const at::Tensor &t) {
  return known_.try_emplace(t.unsafeGetTensorImpl(), Known{t, grad_state(t)}).first->second;
}

bool Gradients::read(const at::Tensor &t) {
  Known &known = met(t);
  known.read |= !known.sure;
  return known.grad != grad_of(t).unsafeGetTensorImpl();
}

void Gradients::is_known(const at::Tensor &t) { met(t).grad = grad_of(t).unsafeGetTensorImpl(); }

void Gradients::wrote(const at::Tensor &t) {
  met(t).sure = true;
  is_known(t);
}

std::vector<std::pair<at::Tensor, GradState>> Gradients::assumed() const {
  std::vector<std::pair<at::Tensor, GradState>> result;
  for (const auto &[impl, known] : known_)
    if (known.read)
      result.emplace_back(known.tensor, known.before);
  return result;
}

/// Whether restoring the `.grad`s of leaves is enough to undo the call. If so, the `.grad`s are
/// saved.
static bool can_be_taken_back(Trace &trace, const EngineCall &call) {
  if (!trace.effects.first.empty())
    return false;
  std::unordered_set<const Node *>
      outside; // of graphs from before the body, whose buffers it frees
  const auto add = [&](const at::Tensor &t) {
    if (t.defined() && t.requires_grad() && !t.is_leaf())
      outside.insert(t.grad_fn().get());
  };
  for (const at::Tensor &t : trace.inputs.slots())
    add(t);
  for (const Capture &capture : trace.result.captures)
    add(capture.tensor);
  const auto &state = tracer::getTracingState();
  std::vector<std::pair<at::Tensor, bool>> leaves; // with whether the engine may add in place
  for (const NodeRef &node : reached_from(call.roots)) {
    if (!computes_alone(*node) || outside.contains(node.get()))
      return false;
    const auto *accumulates = dynamic_cast<torch::autograd::AccumulateGrad *>(node.get());
    if (!accumulates || !call.accumulates)
      continue;
    const at::Tensor &leaf = accumulates->variable, &grad = grad_of(leaf);
    const bool dense = grad.defined() && grad.layout() == at::kStrided && grad.has_storage();
    if (!state->hasValue(leaf) || (grad.defined() && !dense))
      return false;
    // Unless the body has set it, a gradient may be there at a later call alone.
    const bool own = trace.effects.saves.has_grad(*state->graph, leaf) &&
                     !(dense && trace.inputs.has_memory(grad.storage().unsafeGetStorageImpl()));
    leaves.emplace_back(leaf, !own);
  }
  for (const auto &[leaf, adds] : leaves)
    trace.effects.saves.grad(*state->graph, leaf, state->getValue(leaf), adds);
  return true;
}

void prepare_engine_call(const EngineCall &call) {
  Trace &trace = *current;
  check(call);
  std::vector<at::Tensor> tensors;
  each_defined(call, [&](const at::Tensor &t) { tensors.push_back(t); });
  trace.prepare_inputs(tensors);
  if (!can_be_taken_back(trace, call))
    trace.effects.note("a call of the autograd engine");
  if (trace.witness)
    trace.witness->before_backward();
  trace.gradients.about_to_run(call);
}

void record_engine_call(const EngineCall &call, const Tensors &results) {
  Trace &trace = *current;
  trace.gradients.has_run();
  if (trace.witness)
    trace.witness->after_backward();
  const auto &state = tracer::getTracingState();
  const auto values = [&](const Tensors &tensors) {
    std::vector<jit::Value *> found;
    for (const at::Tensor &t : tensors)
      found.push_back(t.defined() ? state->getValue(t) : nullptr);
    return found;
  };
  std::vector<bool> defined;
  for (const at::Tensor &t : results)
    defined.push_back(t.defined());
  const auto inputs = values(call.inputs);
  jit::Node *node = insert_engine_call(*state->graph, call, values(call.roots), values(call.grads),
                                       inputs, defined);
  tracer::recordSourceLocation(call.accumulates ? node : node->input()->node());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined())
      continue;
    state->setValue(results[i], node->output(i));
    if (trace.value_sizes.has(inputs[i]))
      trace.value_sizes.note(node->output(i));
  }
  if (trace.dynamic_sizes) {
    Tensors known;
    for (const at::Tensor &t : results)
      if (t.defined())
        known.push_back(t);
    trace.dynamic_sizes->after(known);
  }
}

/// At a later call another tensor may be passed, or be at that path, than the gradient.
static void check_reached_by_grad_alone(Trace &trace, const at::Tensor &grad) {
  const auto input =
      tracer::getTracingState()->hasValue(grad) ? trace.inputs.find(grad) : std::nullopt;
  const bool is_input = input && input->second.is_same(grad);
  const std::string path =
      is_input ? trace.inputs.name(input->first) : trace.frontend.path_of(grad);
  if (is_input || !path.empty())
    reject_here(fmt::format("the body reads a .grad that it is given also as {},",
                            path.empty() ? "an argument" : path),
                "Use it by one way only.");
}

at::Tensor owner_of_grad(const at::Tensor &t) {
  at::Tensor eager = in_eager(t);
  return eager.is_leaf() ? eager : t;
}

void read_grad(const at::Tensor &t) {
  Trace &trace = *current;
  trace.inputs.know(t);
  if (!shapes::is_fake_tensor(t)) // a staged block reads it from the tensor itself
    trace.blocks.meet(t);
  if (trace.dynamic_sizes)
    trace.dynamic_sizes->settle();
  const auto &state = tracer::getTracingState();
  jit::Value *value = state->getValue(t);
  const at::Tensor owner = owner_of_grad(t);
  const bool is_new = trace.gradients.read(owner);
  const at::Tensor &grad = grad_of(owner);
  if (!grad.defined()) {
    if (trace.gradients.runs())
      record_op("tracehost::expect_no_grad", {value}, 0);
  } else if (grad_state(owner) == GradState::other) {
    reject_here(fmt::format("the body reads a .grad which is sparse, or of another dtype or shape "
                            "than its tensor ({}),",
                            TensorMeta::of(grad).text()),
                "Read it outside of the function.");
  } else if (is_new || !state->hasValue(grad)) {
    check_reached_by_grad_alone(trace, grad);
    jit::Value *requires_grad = state->graph->insertConstant(grad.requires_grad());
    jit::Node *node = record_op("tracehost::read_grad", {value, requires_grad});
    if (!trace.gradients.is_sure(owner))
      trace.inputs.note_memory(grad);
    state->setValue(grad, node->output());
    trace.gradients.is_known(owner);
    if (trace.value_sizes.has(value))
      trace.value_sizes.note(node->output());
    if (trace.dynamic_sizes)
      trace.dynamic_sizes->after({grad});
  }
}

void written_grad(const at::Tensor &t) {
  Trace &trace = *current;
  const at::Tensor owner = owner_of_grad(t);
  const at::Tensor &grad = grad_of(owner);
  trace.prepare_inputs(grad.defined() ? Tensors{t, grad} : Tensors{t});
  const auto &state = tracer::getTracingState();
  if (shapes::is_fake_tensor(t))
    trace.effects.note("a .grad that is set");
  else
    trace.effects.saves.grad(*state->graph, owner, state->getValue(t));
  trace.gradients.wrote(owner);
  jit::Value *to =
      grad.defined() ? state->getValue(grad) : state->graph->insertConstant(c10::IValue());
  record_op("tracehost::set_grad", {state->getValue(t), to}, 0);
}

void meet(const at::Tensor &t) { current->inputs.know(t); }
void check_grad_is_set(const at::Tensor &t, const at::Tensor &grad) {
  const bool of_block = in_block() && (shapes::is_fake_tensor(grad) ||
                                       (current->blocks.on_fake_tensors() &&
                                        !shapes::is_fake_tensor(t))); // which no attempt restores
  if (of_block)
    reject(Rejection::staging,
           fmt::format("a .grad is set in a branch or loop that is staged, at {}. Change "
                       "it in place (p.grad.mul_(0.5)), or set it after the block.",
                       text(current->here())));
  if (without_data() && !shapes::is_fake_tensor(t))
    reject_here("a .grad is set in a trace without example data (get_concrete_function, warm_up),",
                "Call the function once with such arguments instead.");
}
void retained_grad(const at::Tensor &t) { record_op("tracehost::retain_grad", {value_of(t)}, 0); }

} // namespace tracehost::trace
