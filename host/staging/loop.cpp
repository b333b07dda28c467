#include "staging/loop.h"

#include "program/program.h"
#include "staging/values.h"
#include "trace/call.h"
#include "trace/tracer.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <limits>

namespace tracehost::staging {

namespace jit = torch::jit;

namespace {

/// Of a tensor, a number or a list of tensors.
c10::TypePtr type_of(const c10::IValue &value) {
  if (value.isTensor())
    return c10::TensorType::get();
  if (value.isInt())
    return c10::IntType::get();
  if (value.isDouble())
    return c10::FloatType::get();
  if (value.isBool()) // TorchScript takes no bool for a Scalar
    return c10::NumberType::get();
  return c10::ListType::ofTensors();
}

/// The graph of one node, with what it uses from around it as inputs or copied.
class Extract {
public:
  explicit Extract(const std::unordered_map<jit::Value *, c10::IValue> &known) : known_(known) {}

  jit::Node *copy(jit::Node *node) {
    return graph_->insertNode(graph_->createClone(node, [this](jit::Value *v) { return of(v); }));
  }
  std::shared_ptr<jit::Graph> graph() const { return graph_; }
  jit::Stack inputs;

private:
  jit::Value *of(jit::Value *value) {
    if (const auto found = values_.find(value); found != values_.end())
      return found->second;
    if (const auto found = known_.find(value); found != known_.end()) {
      inputs.emplace_back(found->second);
      return values_[value] = graph_->addInput()->setType(type_of(found->second));
    }
    TORCH_CHECK(value->node()->kind() != c10::prim::Param && value->node()->blocks().empty(),
                "tracehost: a staged loop uses a value that has no tensor: ", *value->node());
    jit::Node *made = copy(value->node()); // a constant, a size
    for (std::size_t i = 0; i < made->outputs().size(); ++i)
      values_[value->node()->outputs()[i]] = made->outputs()[i];
    return values_.at(value);
  }

  const std::unordered_map<jit::Value *, c10::IValue> &known_;
  std::shared_ptr<jit::Graph> graph_ = std::make_shared<jit::Graph>();
  std::unordered_map<jit::Value *, jit::Value *> values_;
};

/// A fake tensor for what later iterations have in the place of `twin`: no leaf.
at::Tensor later(const at::Tensor &twin) {
  const trace::Paused paused;
  return twin.clone();
}

/// Whether autograd records the one and not the other.
bool records_other(const at::Tensor &before, const at::Tensor &after) {
  const at::Tensor first = trace::in_eager(before);
  return first.requires_grad() != after.requires_grad() || first.is_leaf() != after.is_leaf();
}

} // namespace

Loop::Loop(const Bounds &bounds, std::vector<at::Tensor> carried)
    : bounds_(bounds), effect_(trace::first_effect()), carried_(std::move(carried)) {
  trace::record_modes();
  auto &graph = *jit::tracer::getTracingState()->graph;
  constexpr auto any = std::numeric_limits<std::int64_t>::max();
  jit::Value *count = bounds.count.defined()
                          ? graph.insert(c10::aten::Int, {trace::value_of(bounds.count)})
                          : graph.insertConstant(bounds.maximum < 0 ? any : bounds.maximum);
  jit::Value *condition =
      bounds.condition.defined() ? truth_of(bounds.condition) : graph.insertConstant(true);
  std::vector<jit::Value *> inputs{count, condition};
  for (const at::Tensor &t : carried_)
    inputs.push_back(trace::value_of(t));
  node_ = trace::record_op("prim::Loop", inputs, 0);
  jit::Block *block = node_->addBlock();
  block->addInput("i")->setType(c10::IntType::get());
  for (std::size_t i = 0; i < carried_.size(); ++i) {
    block->addInput()->setType(c10::TensorType::get());
    inexact_.push_back(trace::is_inexact(inputs[i + 2]));
    node_->addOutput()->setType(c10::TensorType::get());
  }
}

void Loop::body(const Varying &varying,
                const std::function<Next(const at::Tensor &, const std::vector<at::Tensor> &)> &f) {
  jit::Block *block = node_->blocks()[0];
  trace::InBlock scope(block);
  const bool has_data = !trace::without_data();
  const trace::OnFakeTensors without_data;
  auto &graph = *node_->owningGraph();
  std::vector<at::Tensor> fake_tensors;
  for (std::size_t i = 0; i < carried_.size(); ++i) {
    const auto &open = varying.at(i);
    inexact_[i] = inexact_[i] || std::find(open.begin(), open.end(), true) != open.end();
    jit::Value *value = block->inputs()[i + 1];
    fake_tensors.push_back(later(trace::fake_tensor_for(carried_[i])));
    trace::bind(fake_tensors.back(), value);
    trace::note_made_in_block(fake_tensors.back());
    if (inexact_[i])
      trace::set_inexact(value);
  }
  const at::Tensor index = tensor_of(block->inputs()[0], 0);
  const Next next = f(index, fake_tensors);
  trace::settle_reads();
  if (trace::abandoned())
    throw trace::Abandoned("a loop's body continued without its graph");
  block->registerOutput(next.condition.defined() ? truth_of(next.condition)
                                                 : graph.insertConstant(true));
  for (std::size_t i = 0; i < carried_.size(); ++i) {
    jit::Value *value = trace::value_of(next.carried.at(i));
    inexact_[i] = inexact_[i] || trace::is_inexact(value);
    note_varying(trace::Fact::layout, i, may_lie_otherwise(carried_[i], next.carried[i]));
    note_varying(trace::Fact::gradient, i, records_other(carried_[i], next.carried[i]));
    block->registerOutput(value);
  }
  scope.close();
  auto met = without_data.met();
  if (has_data)
    known_ = std::move(met);
  else
    carried_ = std::move(fake_tensors);
}

void Loop::note_varying(trace::Fact fact, std::size_t i, bool varies) {
  if (!varies)
    return;
  trace::set_varies(node_->output(i), fact);
  trace::check_not_read(node_->blocks()[0]->inputs()[i + 1], fact);
}

std::optional<at::Tensor> row_count(const at::Tensor &t) {
  if (!trace::recording()) // given up: the body runs on without a graph
    return std::nullopt;
  jit::Value *value = trace::value_of(t);
  if (!trace::has_dynamic_sizes() && !trace::is_inexact(value))
    return std::nullopt;
  auto &graph = *value->owningGraph();
  jit::Value *size = graph.insert(c10::aten::size, {value, 0});
  return tensor_of(size, t.size(0));
}

void Loop::discard() {
  if (trace::abandoned())
    return;
  trace::forget(node_);
  node_->destroy();
  trace::set_first_effect(effect_);
}

std::vector<at::Tensor> Loop::run_now() {
  for (std::size_t i = 0; i < carried_.size(); ++i)
    known_.insert_or_assign(node_->inputs()[i + 2], carried_[i]);
  if (bounds_.count.defined())
    known_.insert_or_assign(node_->inputs()[0]->node()->input(0), bounds_.count);
  if (bounds_.condition.defined())
    known_.insert_or_assign(node_->inputs()[1]->node()->input(0), bounds_.condition);
  Extract extract(known_);
  for (jit::Value *output : extract.copy(node_)->outputs())
    extract.graph()->registerOutput(output);
  const trace::Paused paused;
  const Program program(extract.graph(), "loop", carried_.size());
  jit::Stack stack = std::move(extract.inputs);
  program.run(stack);
  std::vector<at::Tensor> results;
  for (const auto &value : stack)
    results.push_back(value.toTensor());
  return results;
}

std::vector<at::Tensor> Loop::finish() {
  std::vector<at::Tensor> results = !trace::without_data() ? run_now() : carried_;
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = result_of_block(node_->output(i), results[i], inexact_[i]);
  return results;
}

} // namespace tracehost::staging
