#include "shapes/fake_tensor.h"
#include "trace/ancestry.h"
#include "trace/call.h"
#include "trace/dynamic_sizes.h"
#include "trace/numbers.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

/// What the body reads of dynamic sizes: numbers, truths, strides.

namespace tracehost::trace {

namespace jit = torch::jit;
namespace tracer = torch::jit::tracer;

void DynamicSizes::settle() {
  for (const IndexRead &read : std::exchange(index_reads_, {}))
    if (!take_stashed(read.value))
      specialize_value(read.value, "len(), range() or another use of the number itself",
                       read.where);
}

/// torch's argument parser records a size that an op takes by an `aten::Int` right behind it.
bool DynamicSizes::take_stashed(jit::Value *value) {
  for (jit::Node *node = value->node()->next();
       node->kind() == c10::aten::Int || node->kind() == c10::aten::ScalarImplicit ||
       node->kind() == c10::aten::Float;
       node = node->next())
    if (node->input(0) == value && node->output()->uses().empty() && stashed_.insert(node).second)
      return true;
  return false;
}

std::int64_t DynamicSizes::index(const at::Tensor &size) {
  jit::Value *value = value_of(size);
  // The bounds of a slice are read before the slice is recorded. The next op shows whether there is
  // one.
  if (value && !take_stashed(value)) {
    advance();
    if (leaves_of(value))
      index_reads_.push_back({value, frontend_.here()});
  }
  return integer_now(size);
}

std::int64_t DynamicSizes::specialize(const at::Tensor &size, const std::string &why) {
  settle();
  if (jit::Value *value = value_of(size)) {
    advance();
    specialize_value(value, why, frontend_.here());
  }
  return integer_now(size);
}

bool DynamicSizes::truth(const at::Tensor &t) {
  settle();
  const bool actual = integer_now(t) != 0;
  jit::Value *value = value_of(t);
  if (!value)
    return actual;
  advance();
  auto read = reader_.read(value);
  const auto expected = reader_.values(value);
  bool right = read.has_value();
  for (std::size_t p = 0; right && p < SizePoints::kTogether; ++p)
    right = holds_at(*read, expected[p], p);
  if (!right) {
    specialize_value(value, "a comparison that the sizes of the inputs can't express",
                     frontend_.here());
    return actual;
  }
  add(read->needs);
  if (read->leaves)
    add(std::move(read->expression), actual);
  return actual;
}

/// Whether the ops gave what the expression says, where both are known.
bool DynamicSizes::holds_at(const ReadSize &read, std::optional<std::int64_t> expected,
                            std::size_t point) const {
  const SizesAt at(points_, point);
  const bool applies =
      std::all_of(read.needs.begin(), read.needs.end(), [&](const Size::Need &need) {
        return holds({need.expression, need.expected, ""}, at);
      });
  return !expected || !applies || holds({read.expression, *expected != 0, ""}, at);
}

/// The size as the body gets it: recorded as libtorch does, with a note of what reads it.
at::Tensor DynamicSizes::record(jit::Node *node, std::int64_t actual) {
  tracer::recordSourceLocation(node);
  graph().insertNode(node);
  node->output()->setType(jit::IntType::get());
  jit::Node *number = graph().insertNode(graph().createNumToTensor(node->output()));
  at::Tensor size;
  {
    const PausedWithData paused;
    size = at::scalar_tensor(actual, at::TensorOptions().dtype(at::kLong).device(at::kCPU));
  }
  tracer::getTracingState()->setValue(size, number->output());
  given.emplace(number->output(), size);
  advance();
  return size;
}

/// Whether `size`, which is `actual` in this call, is the same in all that the graph serves.
bool DynamicSizes::is_exact(const Size &size, std::int64_t actual) {
  if (size.constant() != actual)
    return false;
  add(size.needs());
  return true;
}

namespace {

/// Whether the body gets a number that the graph reads, and checks where the body needs it.
bool is_read_as_number(const at::Tensor &t) {
  return traces_reads() && !without_data() && !shapes::is_fake_tensor(t);
}

} // namespace

/// The tensor's value, if the runs at other sizes know what it is; else null.
jit::Value *DynamicSizes::sized_value(const at::Tensor &t) {
  jit::Value *value = value_of(t);
  if (!value)
    return nullptr;
  settle();
  advance();
  return shadow_.of(value).leaves ? value : nullptr;
}

std::optional<at::Tensor> DynamicSizes::size(const at::Tensor &t, std::int64_t dimension) {
  jit::Value *value = sized_value(t);
  if (!value)
    return std::nullopt;
  const Dims *dims = reader_.rules().dims(value);
  const Size size = dims ? dims->at(static_cast<std::size_t>(dimension)) : Size();
  if (is_exact(size, t.size(dimension)))
    return std::nullopt;
  if (!size.known() && is_read_as_number(t))
    return read_size(t, dimension);
  jit::Value *index = graph().insertConstant(dimension);
  return record(graph().create(c10::aten::size, {value, index}), t.size(dimension));
}

std::optional<at::Tensor> DynamicSizes::numel(const at::Tensor &t) {
  jit::Value *value = sized_value(t);
  if (!value)
    return std::nullopt;
  const Dims *dims = reader_.rules().dims(value);
  Size size = dims ? Size(1) : Size();
  if (dims)
    for (const Size &one : *dims)
      size = size * one;
  if (is_exact(size, t.numel()))
    return std::nullopt;
  if (!size.known() && is_read_as_number(t))
    return read_numel(t);
  return record(graph().create(c10::Symbol::aten("numel"), {value}), t.numel());
}

/// The signature has the contiguity of an input.
bool DynamicSizes::lies_by_sizes(const at::Tensor &t, Layout read) {
  if (!is_read_as_number(t))
    return false;
  const jit::Value *value = sized_value(t);
  const bool known =
      read == Layout::contiguity && value &&
      (value->node()->kind() == c10::prim::Param || is_always_contiguous(*value->node()));
  return value && !known;
}

bool DynamicSizes::is_size(const at::Tensor &t) {
  if (t.dim() != 0 || !at::isIntegralType(t.scalar_type(), true) || !t.device().is_cpu())
    return false;
  jit::Value *value = value_of(t);
  if (!value || is_traced_number(t))
    return false;
  advance();
  return is_size(value);
}

namespace {

/// Whether the number comes from a tensor's values, if in part.
bool is_of_values(const jit::Value *number) {
  std::vector<const jit::Value *> open{number};
  std::unordered_set<const jit::Value *> seen;
  while (!open.empty()) {
    const jit::Value *value = open.back();
    open.pop_back();
    const jit::Node *node = value->node();
    if (node->kind() == c10::aten::item)
      return true;
    if (node->kind() == c10::prim::Param || node->kind() == c10::aten::size)
      continue;
    for (const jit::Value *input : node->inputs())
      if (!input->type()->isSubtypeOf(*c10::TensorType::get()) && seen.insert(input).second)
        open.push_back(input);
  }
  return false;
}

} // namespace

bool DynamicSizes::is_size(jit::Value *value) {
  jit::Node *node = value->node();
  if (node->kind() == c10::prim::NumToTensor)
    return !is_of_values(node->input());
  const Shadow::Entry &entry = shadow_.of(value);
  if (entry.has(SizePoints::real))
    return entry.at[0].isTensor() && entry.at[0].toTensor().defined() &&
           !shapes::is_fake_tensor(entry.at[0].toTensor());
  // Of a tensor whose sizes are not known.
  bool any = false;
  for (jit::Value *input : node->inputs())
    if (input->type()->isSubtypeOf(*c10::TensorType::get()) &&
        input->node()->kind() != c10::prim::Constant) {
      any = true;
      if (!is_size(input))
        return false;
    }
  return any;
}

/// Strides that are the same at all points may differ for a larger tensor, which a slice cuts. So
/// one point has to be beyond the numbers that ops were given.
void DynamicSizes::advance_for_strides() {
  settle();
  advance();
  if (!points_.grow_beyond(shadow_.largest_number))
    return;
  shadow_.restart();
  advance();
}

void DynamicSizes::read_strides(const at::Tensor &t) {
  advance_for_strides();
  jit::Value *value = value_of(t);
  if (!value)
    return;
  const Shadow::Entry &entry = shadow_.of(value);
  bool same = entry.sure();
  for (std::size_t p = 1; same && p < points_.count(); ++p) {
    if (!entry.has(p))
      continue;
    const at::Tensor &first = entry.at[0].toTensor(), &other = entry.at[p].toTensor();
    same = first.strides() == other.strides() && first.storage_offset() == other.storage_offset();
  }
  if (!same)
    specialize_leaves(entry.leaves, "its strides or offset", frontend_.here());
}

/// The minima and maxima that sizes up to `value` are of stay on the side of the trace, where the
/// near points are as well. False if there are none.
bool DynamicSizes::stay_within_bounds(jit::Value *value) {
  const auto bounds = reader_.rules().bounds(value);
  const SizesAt now(points_, SizePoints::real);
  for (const SizeExpression &bound : bounds)
    add(bound, holds({bound, true, ""}, now));
  return !bounds.empty();
}

void DynamicSizes::read_contiguity(const at::Tensor &t) {
  advance_for_strides();
  jit::Value *value = value_of(t);
  if (!value)
    return;
  const Shadow::Entry entry = shadow_.of(value);
  for (std::size_t p = 1; p < points_.count(); ++p) {
    if (!entry.has(p) || !entry.has(0) ||
        entry.at[0].toTensor().is_contiguous() == entry.at[p].toTensor().is_contiguous())
      continue;
    if (p == SizePoints::large && stay_within_bounds(value))
      continue;
    if (p < SizePoints::ones)
      return specialize_leaves(entry.leaves, "whether it is contiguous", frontend_.here());
    shadow_.differences.push_back({value->node(), p, "contiguity", entry.leaves, false});
    collect();
  }
}

void DynamicSizes::split(const at::Tensor &t, std::int64_t dimension, std::int64_t chunks) {
  jit::Value *value = value_of(t);
  if (!value || chunks <= 2) // two for each size but 1, which the points cover
    return;
  advance();
  const Dims *dims = reader_.rules().dims(value);
  const Size size =
      dims ? dims->at(static_cast<std::size_t>(at::maybe_wrap_dim(dimension, t.dim()))) : Size();
  specialize_leaves(size.known() ? reader_.read(size).leaves : shadow_.of(value).leaves,
                    "chunk, whose number of results is a size", frontend_.here());
}

void DynamicSizes::split_by(jit::Value *size) {
  advance();
  specialize_value(size, "split, whose number of results is a size", frontend_.here());
}

void DynamicSizes::forget(jit::Node *node) {
  shadow_.forget(node);
  reader_.rules().forget(node);
  proved_.erase(node);
  stashed_.erase(node);
  std::erase_if(shadow_.unknown, [&](const Shadow::Trouble &t) { return t.node == node; });
  std::erase_if(shadow_.differences, [&](const Shadow::Trouble &t) { return t.node == node; });
}

void DynamicSizes::forget(jit::Value *value) {
  shadow_.forget(value);
  reader_.rules().forget(value);
  given.erase(value);
  std::erase_if(index_reads_, [&](const IndexRead &read) { return read.value == value; });
}

void DynamicSizes::finish() {
  settle();
  advance();
  // What the body never met is no input.
  std::erase_if(result_.specialized, [](const SpecializedDimension &p) {
    return SizePoints::is_unmet(p.dimension.slot);
  });
  std::erase_if(result_.conditions, [](const SizeCondition &c) {
    return std::any_of(c.expression.begin(), c.expression.end(), [](const SizeTerm &term) {
      return term.op == Op::size && SizePoints::is_unmet(static_cast<std::uint32_t>(term.slot));
    });
  });
  for (const SizePoints::Leaf &leaf : points_.leaves())
    if (const auto slot = leaf.dimension.slot;
        !leaf.specialized && slot >= slots_ && !SizePoints::is_unmet(slot))
      result_.dynamic_captures.push_back(leaf.dimension);
  // Of conditions on what became exact later, nothing is left to check.
  std::erase_if(result_.conditions, [&](const SizeCondition &c) {
    return std::all_of(c.expression.begin(), c.expression.end(), [&](const SizeTerm &term) {
      return term.op != Op::size || points_
                                        .leaves()[static_cast<std::size_t>(points_.leaf_at(
                                            static_cast<std::uint32_t>(term.slot), term.dimension))]
                                        .specialized;
    });
  });
}

} // namespace tracehost::trace
