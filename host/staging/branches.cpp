#include "staging/branches.h"

#include "program/nodes.h"
#include "program/places.h"
#include "staging/values.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/messages.h"
#include "trace/numbers.h"
#include "trace/tracer.h"

#include <c10/util/ScopeExit.h>
#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <utility>

namespace tracehost::staging {

namespace jit = torch::jit;

Branches::Branches(const at::Tensor &condition, const std::string &what, std::string where)
    : tested_(condition), where_(std::move(where)), name_(what + " at " + where_),
      effect_(trace::first_effect()) {
  comes_first_ = effect_.empty() && trace::saves_nothing();
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
  const auto end = c10::make_scope_exit([this] {
    if (taken_ && node_ && !trace::abandoned())
      take();
  });
  return run_in_block(branch, body);
}

std::size_t Branches::run_in_block(Branch branch, const Body &body) {
  trace::InBlock block(node_->blocks()[branch]);
  std::optional<trace::OnFakeTensors> without_data;
  const bool real = condition_ == (branch == then);
  if (!trace::without_data() && !real)
    without_data.emplace();
  block_ = real ? &block : nullptr;
  const auto leave = c10::make_scope_exit([this] { block_ = nullptr; });
  auto &results = left_[branch];
  const std::size_t first = results.size();
  for (const Left &earlier : results) // the block's frame of values ended with its run
    trace::bind(earlier.tensor, earlier.value);
  const std::vector<at::Tensor> tensors = body();
  trace::settle_reads();
  if (trace::abandoned())
    throw trace::Abandoned("a branch continued without its graph");
  if (taken_)
    return first;
  if (real && !(block.keeps_modes() && block.keeps_shapes()) && can_be_checked()) {
    check();
    open();
    return first;
  }
  for (const at::Tensor &t : tensors) {
    jit::Value *value = trace::value_of(t);
    const at::Tensor in_eager = trace::in_eager(t);
    results.push_back({t, value, t.sizes().vec(), trace::is_inexact(value),
                       in_eager.requires_grad(), in_eager.is_leaf()});
  }
  block.close();
  return first;
}

bool Branches::can_be_checked() const {
  std::string effect = trace::first_effect();
  trace::set_first_effect(effect_);
  const bool can = condition_ && trace::may_check();
  trace::set_first_effect(std::move(effect));
  return can;
}

std::string Branches::why_not_checked() const {
  if (!condition_)
    return "the trace has no values";
  if (!effect_.empty())
    return "a check that fails could not undo " + effect_;
  return trace::traces_reads() ? "too many graphs for other values serve these arguments already"
                               : "value_reads does not allow it";
}

void Branches::reject(const std::string &why) const {
  trace::reject_staging(fmt::format(
      "a side of the {} {}, and no graph can check the condition there: {}. {}, or decide by a "
      "Python value.",
      name_, why, why_not_checked(),
      why.starts_with("calls print()") ? "Write tracehost.print(), which a graph calls"
                                       : "Do that outside of the function"));
}

void Branches::check() {
  std::string effect = trace::first_effect();
  const auto restore =
      c10::make_scope_exit([&effect] { trace::set_first_effect(std::move(effect)); });
  trace::set_first_effect(effect_);
  const jit::WithInsertPoint before(node_);
  trace::check_condition(tested_, *condition_, where_);
}

void Branches::open() {
  taken_ = true;
  if (block_)
    block_->open();
  else
    take();
}

void Branches::take() {
  trace::take_block(node_, *condition_ ? then : otherwise);
  node_ = nullptr;
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
  jit::Value *result = node_->addOutput();
  if (a && b && may_lie_otherwise(a->tensor, b->tensor))
    trace::set_varies(result, trace::Fact::layout);
  if (a && b && (a->requires_grad != b->requires_grad || a->is_leaf != b->is_leaf))
    trace::set_varies(result, trace::Fact::gradient);
  return result_of_block(result, actual, inexact);
}

} // namespace tracehost::staging
