#include "staging/branches.h"

#include "program/nodes.h"
#include "program/places.h"
#include "staging/values.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/messages.h"
#include "trace/numbers.h"
#include "trace/tracer.h"

#include <torch/csrc/jit/frontend/tracer.h>

namespace tracehost::staging {

namespace jit = torch::jit;

Branches::Branches(const at::Tensor &condition) : effect_(trace::first_effect()) {
  trace::record_modes();
  node_ = trace::record_op("prim::If", {truth_of(condition)}, 0);
  node_->addBlock();
  node_->addBlock();
  if (trace::without_data())
    return;
  const trace::Paused paused;
  condition_ = condition.item().toBool();
}

std::size_t Branches::run(Branch branch, const Body &body) {
  trace::InBlock block(node_->blocks()[branch]);
  std::optional<trace::OnFakeTensors> without_data;
  if (!trace::without_data() && condition_ != (branch == then))
    without_data.emplace();
  auto &results = left_[branch];
  const std::size_t first = results.size();
  for (const Left &earlier : results) // the block's frame of values ended with its run
    trace::bind(earlier.tensor, earlier.value);
  const std::vector<at::Tensor> tensors = body();
  if (trace::abandoned())
    throw trace::Abandoned("a branch continued without its graph");
  for (const at::Tensor &t : tensors) {
    jit::Value *value = trace::value_of(t);
    results.push_back({t, value, t.sizes().vec(), trace::is_inexact(value)});
  }
  block.close();
  return first;
}

void Branches::discard() {
  trace::forget(node_);
  node_->destroy();
  trace::set_first_effect(std::move(effect_));
}

bool Branches::can_be_checked() const {
  std::string effect = trace::first_effect();
  trace::set_first_effect(effect_);
  const bool can = condition_ && trace::may_check();
  trace::set_first_effect(std::move(effect));
  return can;
}

void Branches::take(const std::function<void()> &check) {
  std::string effect = trace::first_effect();
  trace::set_first_effect(std::move(effect_));
  {
    const jit::WithInsertPoint before(node_);
    check();
  }
  trace::set_first_effect(std::move(effect));
  trace::take_block(node_, *condition_ ? then : otherwise);
}

void Branches::raise(Branch branch, const std::string &type, const std::string &message,
                     const std::string &details, const Site &where) {
  const jit::WithInsertPoint here(node_->blocks()[branch]);
  raise_error(type, message, details, where);
}

void raise_error(const std::string &type, const std::string &message, const std::string &details,
                 const Site &where) {
  trace::forgive_failure();
  trace::note_raised();
  auto &graph = *jit::tracer::getTracingState()->graph;
  jit::Value *what = graph.insertConstant(type), *why = trace::insert_message(graph, message);
  jit::Value *more = trace::insert_message(graph, details);
  insert_op(graph, "tracehost::raise_error", {what, why, more}, 0)
      ->setSourceRange(place_range(text(where)));
}

const Branches::Left *Branches::left(Branch branch, std::size_t index) const {
  return index == kNone ? nullptr : &left_[branch].at(index);
}

jit::Value *Branches::output(Branch branch, std::size_t index) {
  if (const Left *found = left(branch, index))
    return found->value;
  auto &graph = *node_->owningGraph();
  const jit::WithInsertPoint here(node_->blocks()[branch]);
  return graph.insertNode(graph.createUninitialized(c10::TensorType::get()))->output();
}

at::Tensor Branches::join(std::size_t first, std::size_t second, const at::Tensor &actual) {
  const Left *a = left(then, first), *b = left(otherwise, second);
  const bool varies = a && b && a->sizes != b->sizes;
  const bool inexact = varies || (a && a->inexact) || (b && b->inexact);
  for (const auto &[branch, index] : {std::pair{then, first}, std::pair{otherwise, second}})
    node_->blocks()[branch]->registerOutput(output(branch, index));
  return result_of_block(node_->addOutput(), actual, inexact);
}

} // namespace tracehost::staging
