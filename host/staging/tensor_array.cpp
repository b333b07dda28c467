#include "staging/tensor_array.h"

#include "staging/values.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/tracer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <utility>

namespace tracehost::staging {

namespace jit = torch::jit;
namespace tracer = torch::jit::tracer;

namespace {

std::int64_t number(const TensorArray::Index &index) {
  const auto *i = std::get_if<std::int64_t>(&index);
  return i ? *i : trace::integer_now(std::get<at::Tensor>(index));
}

/// Whether what is recorded now is in the block that `value` was made in.
bool is_in_block_of(jit::Value *value) {
  return value->owningGraph()->insertPoint()->owningBlock() == value->node()->owningBlock();
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
  value_ = trace::record_op("tracehost::array_new", {length})->output();
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
  if (!value_->owningGraph()->insertPoint()->isDominatedBy(value_->node()))
    trace::reject_staging("a TensorArray that was made in a branch or loop that is staged is used "
                          "outside of it. Make it before the block.");
  trace::record_modes();
  return true;
}

bool TensorArray::has_data() const { return list_ && !trace::without_data(); }

/// Whether the number of elements is the same in each call, here.
bool TensorArray::counts_here() const {
  return !by_value_ && (fixed_ || (!elsewhere_ && is_in_block_of(value_)));
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
    trace::record_op("aten::append", {value_, trace::value_of(value)})
        ->output()
        ->setType(c10::ListType::ofTensors());
    met(value);
    learn(value, value.sizes().vec());
    if (is_in_block_of(value_))
      ++count_;
    else
      elsewhere_ = true;
    if (!has_data())
      return;
  }
  list_.value().push_back(value);
}

void TensorArray::write(const Index &index, const at::Tensor &value) {
  if (in_graph()) {
    auto &graph = *value_->owningGraph();
    jit::Value *at = value_of(index);
    trace::record_op("tracehost::array_write",
                     {value_, at, trace::value_of(value), graph.insertConstant(fixed_)}, 0);
    met(value);
    learn(value, value.sizes().vec());
    const auto *i = std::get_if<std::int64_t>(&index);
    if (!fixed_ && (!i || !is_in_block_of(value_)))
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
    trace::record_op("tracehost::array_unstack", {value_, of, graph.insertConstant(fixed_)}, 0);
    met(rows);
    auto sizes = rows.sizes().vec();
    if (!sizes.empty())
      sizes.erase(sizes.begin());
    learn(rows, std::move(sizes));
    if (!fixed_)
      count_ = rows.dim() ? rows.size(0) : 0;
    elsewhere_ |= trace::is_inexact(of) || trace::has_dynamic_sizes() || !is_in_block_of(value_);
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
  jit::Node *node = trace::record_op("tracehost::array_read", {value_, value_of(index)});
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
  jit::Value *list = trace::record_op("tracehost::array_written", {value_})->output();
  list->setType(c10::ListType::ofTensors());
  jit::Node *node = trace::record_op("aten::stack", {list, graph.insertConstant(0)});
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
