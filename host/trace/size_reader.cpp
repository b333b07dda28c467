#include "trace/size_reader.h"

#include "shapes/fake_tensor.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace tracehost::trace {

namespace jit = torch::jit;

namespace {

using Op = SizeTerm::Op;
using Values = std::vector<std::optional<std::int64_t>>;

constexpr int kDeepest = 64;
constexpr std::size_t kMostTerms = 256;

SizeTerm constant_term(std::int64_t n) { return {Op::constant, -1, -1, n}; }
SizeTerm apply(Op op) { return {op, -1, -1, 0}; }

/// An int, a bool, or a 0-dim tensor that holds one.
std::optional<std::int64_t> integer(const c10::IValue &value) {
  if (value.isInt())
    return value.toInt();
  if (value.isBool())
    return value.toBool();
  if (!value.isTensor() || !value.toTensor().defined())
    return std::nullopt;
  const at::Tensor &t = value.toTensor();
  if (shapes::is_fake_tensor(t) || t.dim() != 0 || !at::isIntegralType(t.scalar_type(), true))
    return std::nullopt;
  // Not item(): this runs while the tracer records.
  switch (t.scalar_type()) {
  case at::kLong:
    return *t.const_data_ptr<std::int64_t>();
  case at::kBool:
    return *t.const_data_ptr<bool>();
  case at::kInt:
    return *t.const_data_ptr<std::int32_t>();
  default:
    return std::nullopt;
  }
}

struct Known {
  Op op;
  bool swapped;
};

/// Ops on two integers.
const std::unordered_map<std::string_view, Known> kOperators = {
    {"aten::add", {Op::add, false}},
    {"aten::sub", {Op::subtract, false}},
    {"aten::rsub", {Op::subtract, true}},
    {"aten::mul", {Op::multiply, false}},
    {"aten::floor_divide", {Op::floor_divide, false}},
    {"aten::remainder", {Op::remainder, false}},
    {"aten::eq", {Op::equal, false}},
    {"aten::ne", {Op::not_equal, false}},
    {"aten::lt", {Op::less, false}},
    {"aten::le", {Op::less_equal, false}},
    {"aten::gt", {Op::less, true}},
    {"aten::ge", {Op::less_equal, true}},
    {"aten::logical_and", {Op::logical_and, false}},
    {"aten::logical_or", {Op::logical_or, false}},
    {"aten::minimum", {Op::minimum, false}},
    {"aten::maximum", {Op::maximum, false}},
};

} // namespace

Values SizeReader::values(jit::Value *value) {
  const Shadow::Entry &entry = shadow_.of(value);
  Values result(points_.count());
  for (std::size_t p = 0; p < result.size(); ++p)
    if (entry.has(p))
      result[p] = integer(entry.at[p]);
  return result;
}

LeafSet SizeReader::leaves_in(const SizeExpression &expression) const {
  LeafSet leaves = 0;
  for (const SizeTerm &term : expression)
    if (term.op == Op::size)
      leaves |= SizePoints::bit(static_cast<std::size_t>(
          points_.leaf_at(static_cast<std::uint32_t>(term.slot), term.dimension)));
  return leaves;
}

std::optional<ReadSize> SizeReader::read(jit::Value *value) {
  ReadSize result;
  if (!walk(value, result, 0))
    return std::nullopt;
  return result;
}

ReadSize SizeReader::read(const Size &size) const {
  ReadSize result;
  append(result, size);
  return result;
}

Size SizeReader::size(jit::Value *value) {
  const auto found = read(value);
  if (!found)
    return {};
  Size result = Size::of(found->expression);
  if (!result.known())
    return {};
  for (const Size::Need &need : found->needs)
    result = result.with(need);
  return result;
}

void SizeReader::append(ReadSize &into, const Size &size) const {
  const SizeExpression expression = size.expression();
  into.expression.insert(into.expression.end(), expression.begin(), expression.end());
  into.leaves |= leaves_in(expression);
  for (const Size::Need &need : size.needs()) {
    into.leaves |= leaves_in(need.expression);
    if (std::find(into.needs.begin(), into.needs.end(), need) == into.needs.end())
      into.needs.push_back(need);
  }
}

bool SizeReader::walk(jit::Value *value, ReadSize &into, int depth) {
  if (depth > kDeepest || into.expression.size() > kMostTerms)
    return false;
  jit::Node *node = value->node();
  if (node->kind() == c10::prim::Constant) {
    const auto constant = jit::toIValue(value);
    const auto n = constant ? integer(*constant) : std::nullopt;
    if (n)
      into.expression.push_back(constant_term(*n));
    return n.has_value();
  }
  if (node->kind() == c10::prim::NumToTensor || node->kind() == c10::aten::Int ||
      node->kind() == c10::aten::ScalarImplicit || node->kind() == c10::aten::Bool)
    return walk(node->input(0), into, depth + 1);
  if (node->kind() == c10::aten::size || node->kind() == c10::Symbol::aten("numel"))
    return walk_size(node, into);
  if (node->kind() == c10::aten::logical_not) {
    const bool found = walk(node->input(0), into, depth + 1);
    into.expression.push_back(apply(Op::logical_not));
    return found;
  }
  if (node->kind() == c10::aten::neg) {
    into.expression.push_back(constant_term(0));
    const bool found = walk(node->input(0), into, depth + 1);
    into.expression.push_back(apply(Op::subtract));
    return found;
  }
  if (node->kind() == c10::aten::pow)
    return walk_power(node, into, depth);
  const auto known = kOperators.find(node->kind().toQualString());
  return known != kOperators.end() &&
         walk_operator(node, known->second.op, known->second.swapped, into, depth);
}

bool SizeReader::walk_operator(jit::Node *node, Op op, bool swapped, ReadSize &into, int depth) {
  if (node->inputs().size() < 2)
    return false;
  if (node->inputs().size() > 2) { // alpha of add, sub
    const auto alpha = jit::toIValue(node->input(2));
    if (!alpha || integer(*alpha) != 1)
      return false;
  }
  const bool found = walk(node->input(swapped ? 1 : 0), into, depth + 1) &&
                     walk(node->input(swapped ? 0 : 1), into, depth + 1);
  into.expression.push_back(apply(op));
  return found;
}

/// By a number, as `n ** 2`.
bool SizeReader::walk_power(jit::Node *node, ReadSize &into, int depth) {
  constexpr std::int64_t highest = 3;
  const auto constant = jit::toIValue(node->input(1));
  const auto power = constant ? integer(*constant) : std::nullopt;
  if (!power || *power < 0 || *power > highest)
    return false;
  if (*power == 0)
    into.expression.push_back(constant_term(1));
  for (std::int64_t i = 0; i < *power; ++i) {
    if (!walk(node->input(0), into, depth + 1))
      return false;
    if (i)
      into.expression.push_back(apply(Op::multiply));
  }
  return true;
}

bool SizeReader::walk_size(jit::Node *node, ReadSize &into) {
  const Dims *dims = rules_.dims(node->input(0));
  if (!dims)
    return false;
  Size size(1);
  if (node->kind() == c10::aten::size) {
    const auto dimension =
        node->inputs().size() == 2 ? jit::toIValue(node->input(1)) : std::nullopt;
    const auto rank = static_cast<std::int64_t>(dims->size());
    if (!dimension || dimension->toInt() < -rank || dimension->toInt() >= rank)
      return false;
    const std::int64_t d = dimension->toInt();
    size = (*dims)[static_cast<std::size_t>(d < 0 ? d + rank : d)];
  } else {
    for (const Size &one : *dims)
      size = size * one;
  }
  if (size.known())
    append(into, size);
  return size.known();
}

} // namespace tracehost::trace
