#include "staging/tensor_array.h"

#include "staging/identity.h"
#include "staging/number.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/tracer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tracehost::staging {

namespace jit = torch::jit;
namespace tracer = torch::jit::tracer;

namespace {

c10::Symbol ours(const char *name) {
  return c10::Symbol::fromQualString(std::string("tracehost::array_") + name);
}

std::int64_t number(const TensorArray::Index &index) {
  const auto *i = std::get_if<std::int64_t>(&index);
  return i ? *i : value_now(std::get<at::Tensor>(index));
}

const jit::Block *block_here(jit::Value *value) {
  return value->owningGraph()->insertPoint()->owningBlock();
}

} // namespace

TensorArray::TensorArray(const Index &size)
    : trace_(tracer::getTracingState()), by_value_(std::holds_alternative<at::Tensor>(size)) {
  jit::Value *length = nullptr;
  if (by_value_) {
    const auto &t = std::get<at::Tensor>(size);
    trace::record_modes();
    length = int_of(t);
    if (trace::without_data())
      trace::fake_tensor_for(t); // the block uses it
  } else {
    count_ = std::get<std::int64_t>(size);
    length = tracer::getTracingState()->graph->insertConstant(count_);
  }
  fixed_ = by_value_ || count_ > 0;
  value_ = insert(ours("new"), {length}, 1)->output();
  value_->setType(c10::ListType::ofTensors());
  handle_ = value_->wrap();
  if (!trace::without_data())
    list_ = array_new(number(size));
}

/// Whether what is done now is recorded; false: as with a plain list.
bool TensorArray::in_graph() {
  if (!trace::active() || trace::abandoned())
    return false;
  if (!trace::recording() || trace_.lock() != tracer::getTracingState() || !handle_->elem)
    trace::reject(trace::Rejection::staging,
                  "a TensorArray is used outside of the trace that it was "
                  "made in. Make it where it is used.");
  for (const jit::Block *block = block_here(value_); block != value_->node()->owningBlock();
       block = block->owningNode()->owningBlock())
    if (!block->owningNode())
      trace::reject_staging(
          "a TensorArray that was made in a branch or loop that is staged is used "
          "outside of it. Make it before the block.");
  trace::record_modes();
  return true;
}

bool TensorArray::has_data() const { return list_ && !trace::without_data(); }

/// Whether the number of elements is the same in each call, here.
bool TensorArray::counts_here() const {
  return !by_value_ &&
         (fixed_ || (!elsewhere_ && block_here(value_) == value_->node()->owningBlock()));
}

void TensorArray::grown() {
  if (block_here(value_) == value_->node()->owningBlock())
    ++count_;
  else
    elsewhere_ = true;
}

/// What a block uses is noted where it is to be run for its values.
void TensorArray::met(const at::Tensor &value) {
  if (!trace::without_data())
    return;
  if (list_)
    trace::meet(value_, *list_);
  if (value.defined())
    trace::fake_tensor_for(value);
}

void TensorArray::learn(const at::Tensor &t, std::vector<std::int64_t> sizes) {
  const bool inexact = trace::is_inexact(trace::value_of(t));
  if (!element_)
    element_ = Element{std::move(sizes), t.options(), false, false};
  element_->inexact |= inexact;
  element_->requires_grad |= t.requires_grad();
}

jit::Node *TensorArray::insert(c10::Symbol kind, const std::vector<jit::Value *> &inputs,
                               std::size_t outputs) {
  auto &graph = *inputs[0]->owningGraph();
  jit::Node *node = graph.create(kind, inputs, outputs);
  tracer::recordSourceLocation(node);
  return graph.insertNode(node);
}

jit::Value *TensorArray::value_of(const Index &index) {
  auto &graph = *value_->owningGraph();
  if (const auto *i = std::get_if<std::int64_t>(&index))
    return graph.insertConstant(*i);
  const auto &t = std::get<at::Tensor>(index);
  jit::Value *value = int_of(t);
  met(t);
  return value;
}

void TensorArray::append(const at::Tensor &value) {
  if (in_graph()) {
    insert(c10::aten::append, {value_, trace::value_of(value)}, 1)
        ->output()
        ->setType(c10::ListType::ofTensors());
    met(value);
    learn(value, value.sizes().vec());
    grown();
    if (!has_data())
      return;
  }
  list_.value().push_back(value);
}

void TensorArray::write(const Index &index, const at::Tensor &value) {
  if (in_graph()) {
    auto &graph = *value_->owningGraph();
    jit::Value *at = value_of(index);
    insert(ours("write"), {value_, at, trace::value_of(value), graph.insertConstant(fixed_)}, 0);
    met(value);
    learn(value, value.sizes().vec());
    const auto *i = std::get_if<std::int64_t>(&index);
    if (!fixed_ && (!i || block_here(value_) != value_->node()->owningBlock()))
      elsewhere_ = true;
    else if (!fixed_)
      count_ = std::max(count_, *i + 1);
    if (!has_data())
      return;
  }
  array_write(list_.value(), number(index), value, fixed_);
}

void TensorArray::unstack(const at::Tensor &rows) {
  if (in_graph()) {
    auto &graph = *value_->owningGraph();
    jit::Value *of = trace::value_of(rows);
    insert(ours("unstack"), {value_, of, graph.insertConstant(fixed_)}, 0);
    met(rows);
    auto sizes = rows.sizes().vec();
    if (!sizes.empty())
      sizes.erase(sizes.begin());
    learn(rows, std::move(sizes));
    if (!fixed_)
      count_ = rows.dim() ? rows.size(0) : 0;
    elsewhere_ |= trace::is_inexact(of) || trace::has_dynamic_sizes() ||
                  block_here(value_) != value_->node()->owningBlock();
    if (!has_data())
      return;
  }
  const trace::Paused paused;
  array_unstack(list_.value(), rows, fixed_);
}

/// Without data, the metadata of an element is known only from a write.
const TensorArray::Element &TensorArray::known_element() const {
  if (!element_)
    trace::reject_staging("a TensorArray is read in a branch or loop that is staged, before "
                          "anything was written to it, so that the shape of its elements is not "
                          "known. Write an element before the block.");
  return *element_;
}

at::Tensor TensorArray::fake_tensor(std::vector<std::int64_t> sizes) const {
  const trace::Paused paused;
  at::Tensor made = at::empty(sizes, element_->options);
  if (element_->requires_grad)
    made = made.set_requires_grad(true).clone(); // no leaf
  return made;
}

at::Tensor TensorArray::read(const Index &index) {
  if (!in_graph())
    return array_read(list_.value(), number(index));
  jit::Node *node = insert(ours("read"), {value_, value_of(index)}, 1);
  node->output()->setType(c10::TensorType::get());
  met({});
  at::Tensor result;
  if (has_data()) {
    result = new_identity(array_read(*list_, number(index)));
  } else {
    result = fake_tensor(known_element().sizes);
  }
  trace::bind(result, node->output());
  if (element_ && element_->inexact)
    trace::set_inexact(node->output());
  return result;
}

at::Tensor TensorArray::stack() {
  if (!in_graph())
    return at::stack(array_written(list_.value()).vec(), 0);
  auto &graph = *value_->owningGraph();
  jit::Value *list = insert(ours("written"), {value_}, 1)->output();
  list->setType(c10::ListType::ofTensors());
  jit::Node *node = insert(c10::aten::stack, {list, graph.insertConstant(0)}, 1);
  node->output()->setType(c10::TensorType::get());
  met({});
  const bool exact = counts_here();
  at::Tensor result;
  if (has_data()) {
    const trace::Paused paused;
    result = at::stack(array_written(*list_).vec(), 0);
  } else {
    if (exact && count_ == 0)
      array_written(array_new(0)); // throws
    std::vector<std::int64_t> sizes = known_element().sizes;
    sizes.insert(sizes.begin(), exact ? count_ : 1);
    result = fake_tensor(sizes);
  }
  trace::bind(result, node->output());
  if (!exact || (element_ && element_->inexact))
    trace::set_inexact(node->output());
  return result;
}

TensorArray::Index TensorArray::size() {
  if (!in_graph())
    return static_cast<std::int64_t>(list_.value().size());
  if (counts_here())
    return count_;
  auto &graph = *value_->owningGraph();
  jit::Value *length = graph.insert(c10::aten::len, {value_});
  met({});
  return tensor_of(length, has_data() ? static_cast<std::int64_t>(list_->size()) : count_);
}

} // namespace tracehost::staging
