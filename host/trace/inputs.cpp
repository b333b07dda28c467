#include "trace/inputs.h"

#include "program/nodes.h"
#include "trace/ancestry.h"
#include "trace/trace.h"

#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

#include <algorithm>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

void Inputs::reject_shared(const std::string &what, const std::string &made_at) {
  reject(
      Rejection::capture,
      fmt::format("{} the memory of a numpy array that the body makes a tensor of at {}; a graph "
                  "has a copy of the array. Copy it in the body too (torch.tensor(array)), or "
                  "pass the array as an argument.",
                  what, made_at));
}

Inputs::Inputs(Trace &trace, const std::vector<at::Tensor> &slots, std::vector<std::string> names)
    : trace_(trace), slots_(slots), names_(std::move(names)) {
  for (const at::Tensor &t : slots)
    note_memory(t);
  if (trace_.witness)
    for (const at::Tensor &t : slots)
      trace_.witness->met(t);
}

void Inputs::note_memory(const at::Tensor &t) {
  if (t.has_storage())
    memory_.emplace(t.storage().unsafeGetStorageImpl(), t.storage());
}

void Inputs::check_written(const at::Tensor &t, const std::string &op) {
  if (const std::string *made = arrays_.find(t))
    reject_shared(fmt::format("{} at {} writes to", op, text(trace_.here())), *made);
}

void Inputs::check_returned(const at::Tensor &t) {
  if (const std::string *made = arrays_.find(t))
    reject_shared("the body returns a tensor in", *made);
}

void Inputs::literal(const at::Tensor &t) {
  if (!ArrayMemory::is_torchs(t)) {
    const std::string place = text(trace_.frontend.here());
    const c10::StorageImpl &memory = *t.storage().unsafeGetStorageImpl();
    const bool shared = std::any_of(memory_.begin(), memory_.end(), [&](const auto &known) {
      return ArrayMemory::overlap(memory, *known.first);
    });
    if (shared)
      reject_shared("a tensor from outside shares", place);
    arrays_.add(t, place);
  }
  const auto &state = tracer::getTracingState();
  at::Tensor kept;
  {
    const PausedWithData paused;
    kept = t.clone();
  }
  jit::Value *constant = state->graph->insertConstant(kept);
  state->setValue(t, state->graph->insert(c10::aten::clone, {constant}));
  if (trace_.blocks.depth)
    trace_.blocks.made(t);
}

void Inputs::know(const at::Tensor &t) {
  const auto &state = tracer::getTracingState();
  if (state->hasValue(t))
    return;
  if (const auto found = known_.find(t.unsafeGetTensorImpl()); found != known_.end())
    return bind(t, found->second); // met first in a block that is closed now
  trace_.blocks.check_not_made(t);
  if (const std::string *made = arrays_.find(t))
    reject_shared("a tensor from outside shares", *made);
  std::string path = trace_.frontend.capture_path(t);
  jit::Value *input =
      state->graph->addInput("capture_" + std::to_string(trace_.result.captures.size()));
  input->setType(c10::TensorType::get());
  state->setValue(t, input);
  known_.emplace(t.unsafeGetTensorImpl(), input);
  trace_.result.captures.push_back({t, std::move(path)});
  if (trace_.dynamic_sizes)
    trace_.dynamic_sizes->captured(t, input->offset());
  note_memory(t);
  if (trace_.witness)
    trace_.witness->met(t);
}

void Inputs::is_leaf_of_body(const at::Tensor &t) {
  leaves_.insert_or_assign(t.unsafeGetTensorImpl(), t.getIntrusivePtr());
}

/// `torch.zeros(3, requires_grad=True)` is an op, and then a flag that no op sets: that is one
/// where the tensor was made.
void Inputs::note_leaf(const at::Tensor &t) {
  if (!t.requires_grad() || !t.is_leaf() || t.is_view()) // a view under no_grad says it does
    return;
  const auto *impl = t.unsafeGetTensorImpl();
  if (known_.contains(impl) || leaves_.contains(impl))
    return;
  for (const at::Tensor &slot : slots_)
    if (slot.is_same(t))
      return;
  is_leaf_of_body(t);
  jit::Value *value = tracer::getTracingState()->getValue(t);
  if (value->node()->kind() == c10::prim::Param)
    return;
  jit::Graph &graph = *value->owningGraph();
  const jit::WithInsertPoint after(value->node()->next());
  insert_op(graph, "tracehost::requires_grad_", {value, graph.insertConstant(true)}, 0);
}

bool Inputs::are_apart(const at::Tensor &t) const {
  const auto shares = [&](const at::Tensor &input) {
    return input.has_storage() &&
           input.storage().unsafeGetStorageImpl() == t.storage().unsafeGetStorageImpl();
  };
  const auto captured = [&](const Capture &capture) { return shares(capture.tensor); };
  return !trace_.blocks.on_fake_tensors() && t.has_storage() &&
         std::none_of(slots_.begin(), slots_.end(), shares) &&
         std::none_of(trace_.result.captures.begin(), trace_.result.captures.end(), captured);
}

bool Inputs::may_lie_as_inputs(const at::Tensor &t) const {
  const auto &state = tracer::getTracingState();
  return sets_data || !state->hasValue(t) || trace::may_lie_as_inputs(state->getValue(t));
}

/// The input of the graph that `t` is, or is detached from, with that input's tensor.
std::optional<std::pair<std::uint32_t, at::Tensor>> Inputs::find(const at::Tensor &t) const {
  for (std::uint32_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].is_same(t))
      return {{i, slots_[i]}};
  for (std::size_t i = 0; i < trace_.result.captures.size(); ++i)
    if (trace_.result.captures[i].tensor.is_same(t))
      return {{static_cast<std::uint32_t>(slots_.size() + i), t}};
  const auto &state = tracer::getTracingState();
  if (!state->hasValue(t))
    return std::nullopt;
  const jit::Value *value = state->getValue(t);
  while (value->node()->kind() == c10::aten::detach)
    value = value->node()->input(0);
  if (value->node() != state->graph->param_node())
    return std::nullopt;
  const auto i = static_cast<std::uint32_t>(value->offset());
  return {{i, i < slots_.size() ? slots_[i] : trace_.result.captures[i - slots_.size()].tensor}};
}

/// `'n'`; empty for what has no name.
std::string Inputs::name(std::uint32_t input) const {
  std::string name;
  if (input < slots_.size())
    name = input < names_.size() ? names_[input] : std::string();
  else
    name = trace_.result.captures[input - slots_.size()].path;
  if (name.empty() || name.find(' ') != std::string::npos)
    return name;
  const char quote = name.find('\'') == std::string::npos ? '\'' : '"';
  return quote + name + quote;
}

} // namespace tracehost::trace
