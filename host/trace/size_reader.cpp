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

constexpr int kDeepest = 24;

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
};

void append(ReadSize &into, const ReadSize &part) {
  into.expression.insert(into.expression.end(), part.expression.begin(), part.expression.end());
  into.leaves |= part.leaves;
  into.symbols.insert(into.symbols.end(), part.symbols.begin(), part.symbols.end());
}

/// Whether `found` has these values, where both are known.
bool fits(const Values &found, const Values &values) {
  for (std::size_t p = 0; p < values.size(); ++p)
    if (p < SizePoints::kMust ? !values[p] || found[p] != values[p]
                              : found[p] && values[p] && found[p] != values[p])
      return false;
  return true;
}

} // namespace

Values SizeReader::values(jit::Value *value) {
  const Shadow::Entry &entry = shadow_.of(value);
  Values result(points_.count());
  for (std::size_t p = 0; p < result.size(); ++p)
    if (entry.has(p))
      result[p] = integer(entry.at[p]);
  return result;
}

std::optional<ReadSize> SizeReader::read(jit::Value *value) {
  ReadSize result;
  depth_ = 0;
  if (!walk(value, result))
    return std::nullopt;
  return result;
}

void SizeReader::add_leaf(std::size_t leaf, ReadSize &into) const {
  const auto &l = points_.leaves()[leaf];
  if (l.specialized) {
    into.expression.push_back(constant_term(l.size));
    return;
  }
  into.expression.push_back(
      {Op::size, static_cast<std::int32_t>(l.dimension.slot), l.dimension.dimension, 0});
  into.leaves |= SizePoints::bit(leaf);
}

bool SizeReader::walk(jit::Value *value, ReadSize &into) {
  if (++depth_ > kDeepest * 8)
    return false;
  jit::Node *node = value->node();
  const std::string_view name = node->kind().toQualString();
  if (node->kind() == c10::prim::Constant) {
    const auto constant = jit::toIValue(value);
    const auto n = constant ? integer(*constant) : std::nullopt;
    if (n)
      into.expression.push_back(constant_term(*n));
    return n.has_value();
  }
  if (node->kind() == c10::prim::NumToTensor || node->kind() == c10::aten::Int ||
      node->kind() == c10::aten::ScalarImplicit || node->kind() == c10::aten::Bool)
    return walk(node->input(0), into);
  if (node->kind() == c10::aten::size || node->kind() == c10::Symbol::aten("numel"))
    return walk_size(node, into);
  if (node->kind() == c10::aten::logical_not) {
    const bool found = walk(node->input(0), into);
    into.expression.push_back(apply(Op::logical_not));
    return found;
  }
  if (node->kind() == c10::aten::neg) {
    into.expression.push_back(constant_term(0));
    const bool found = walk(node->input(0), into);
    into.expression.push_back(apply(Op::subtract));
    return found;
  }
  if (const auto known = kOperators.find(name); known != kOperators.end())
    return walk_operator(node, known->second.op, known->second.swapped, into);
  return add_identified(value, into);
}

bool SizeReader::walk_operator(jit::Node *node, Op op, bool swapped, ReadSize &into) {
  if (node->inputs().size() < 2)
    return false;
  if (node->inputs().size() > 2) { // alpha of add, sub
    const auto alpha = jit::toIValue(node->input(2));
    if (!alpha || integer(*alpha) != 1)
      return false;
  }
  const bool found =
      walk(node->input(swapped ? 1 : 0), into) && walk(node->input(swapped ? 0 : 1), into);
  into.expression.push_back(apply(op));
  return found;
}

bool SizeReader::walk_size(jit::Node *node, ReadSize &into) {
  jit::Value *of = node->input(0);
  const bool input = of->node() == of->owningGraph()->param_node();
  if (input && node->kind() == c10::aten::size && node->inputs().size() == 2) {
    const auto dimension = jit::toIValue(node->input(1));
    const int leaf =
        dimension ? points_.leaf_at(static_cast<std::uint32_t>(of->offset()), dimension->toInt())
                  : -1;
    if (leaf >= 0) {
      add_leaf(static_cast<std::size_t>(leaf), into);
      return true;
    }
  }
  if (input && node->kind() == c10::Symbol::aten("numel")) {
    std::int64_t rest = 1;
    std::size_t factors = 0;
    const Shadow::Entry &entry = shadow_.of(of);
    const auto sizes = entry.at[SizePoints::real].toTensor().sizes();
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (const int leaf = points_.leaf_at(static_cast<std::uint32_t>(of->offset()),
                                           static_cast<std::int64_t>(d));
          leaf >= 0) {
        add_leaf(static_cast<std::size_t>(leaf), into);
        if (factors++)
          into.expression.push_back(apply(Op::multiply));
      } else {
        rest *= sizes[d];
      }
    into.expression.push_back(constant_term(rest));
    if (factors)
      into.expression.push_back(apply(Op::multiply));
    return true;
  }
  return add_identified(node->output(), into);
}

bool SizeReader::add_identified(jit::Value *value, ReadSize &into) {
  const auto found = identify(values(value), *value->owningGraph());
  if (found)
    append(into, *found);
  return found.has_value();
}

std::optional<ReadSize> SizeReader::identify(const Values &values, const jit::Graph &graph) {
  for (std::size_t p = 0; p < SizePoints::kMust; ++p)
    if (!values[p])
      return std::nullopt;
  ReadSize result;
  const bool same = std::all_of(values.begin(), values.end(),
                                [&](const auto &v) { return !v || v == values[0]; });
  if (same) {
    result.expression.push_back(constant_term(*values[0]));
    return result;
  }
  for (std::size_t i = 0; i < points_.leaves().size(); ++i) {
    if (points_.leaves()[i].specialized)
      continue;
    Values sizes(values.size());
    for (std::size_t p = 0; p < sizes.size(); ++p)
      sizes[p] = points_.size(i, p);
    if (fits(sizes, values)) {
      add_leaf(i, result);
      require_equal(result);
      return result;
    }
  }
  if (auto found = computed(values, graph)) {
    require_equal(*found);
    return found;
  }
  return combination(values);
}

/// Of three equal sizes, the second and the third are equal at all points.
void SizeReader::require_equal(ReadSize &size) const {
  for (const std::size_t symbol : points_.open_symbols(size.leaves)) {
    const auto leaves = points_.open_leaves(symbol);
    if (leaves.size() < 3)
      continue;
    size.symbols.push_back(symbol);
    for (const std::size_t leaf : leaves)
      size.leaves |= SizePoints::bit(leaf);
  }
}

/// Something that the graph has computed from sizes, `(n + 1) // 2`.
std::optional<ReadSize> SizeReader::computed(const Values &wanted, const jit::Graph &graph) {
  for (jit::Node *node : const_cast<jit::Graph &>(graph).block()->nodes()) {
    const auto known = kOperators.find(node->kind().toQualString());
    if (known == kOperators.end() || known->second.op > Op::remainder)
      continue;
    const Shadow::Entry &entry = shadow_.of(node->output());
    if (!entry.sure() || !integer(entry.at[0]) || !fits(values(node->output()), wanted))
      continue;
    // `k = m.shape[1] + 0` has the values of m.shape[1], which is walked to find the expression of
    // `k`.
    if (!walked_.insert(node).second)
      continue;
    ReadSize found;
    const bool walks = walk(node->output(), found);
    walked_.erase(node);
    if (walks)
      return found;
  }
  return std::nullopt;
}

namespace {

/// Symbols whose sizes are multiplied or added.
struct Candidate {
  std::vector<std::size_t> symbols;
  Op op = Op::multiply;
};

std::vector<Candidate> candidates(const std::vector<std::size_t> &symbols) {
  std::vector<Candidate> result;
  const std::size_t n = symbols.size();
  for (std::size_t i = 0; i < n; ++i)
    result.push_back({{symbols[i]}});
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j) {
      result.push_back({{symbols[i], symbols[j]}});
      if (i != j)
        result.push_back({{symbols[i], symbols[j]}, Op::add});
      for (std::size_t k = j; k < n && n <= 6; ++k)
        result.push_back({{symbols[i], symbols[j], symbols[k]}});
    }
  return result;
}

} // namespace

/// `factor * (a product or sum of symbols) + offset`, if exactly one fits.
std::optional<ReadSize> SizeReader::combination(const Values &wanted) const {
  struct Match {
    Candidate candidate;
    std::int64_t factor, offset;
  };
  std::vector<Match> exact, shifted;
  for (const Candidate &c : candidates(points_.open_symbols(~LeafSet{0}))) {
    std::int64_t m[SizePoints::kTogether];
    for (std::size_t p = 0; p < SizePoints::kTogether; ++p) {
      m[p] = points_.symbol_size(c.symbols[0], p);
      for (std::size_t i = 1; i < c.symbols.size(); ++i) {
        const std::int64_t other = points_.symbol_size(c.symbols[i], p);
        m[p] = c.op == Op::add ? m[p] + other : m[p] * other;
      }
    }
    const std::int64_t run = m[1] - m[2], rise = *wanted[1] - *wanted[2];
    if (run == 0 || rise % run != 0 || rise / run <= 0)
      continue;
    const std::int64_t factor = rise / run, offset = *wanted[1] - factor * m[1];
    bool all = true;
    for (std::size_t p = 0; p < SizePoints::kTogether; ++p)
      all &= !wanted[p] || *wanted[p] == factor * m[p] + offset;
    if (all)
      (offset ? shifted : exact).push_back({c, factor, offset});
  }
  const auto &matches = exact.empty() ? shifted : exact;
  if (matches.size() != 1)
    return std::nullopt;
  const Match &match = matches.front();
  ReadSize result;
  for (std::size_t i = 0; i < match.candidate.symbols.size(); ++i) {
    const std::size_t symbol = match.candidate.symbols[i];
    const auto leaves = points_.open_leaves(symbol);
    add_leaf(leaves.front(), result);
    for (const std::size_t leaf : leaves)
      result.leaves |= SizePoints::bit(leaf);
    if (leaves.size() > 1)
      result.symbols.push_back(symbol);
    if (i)
      result.expression.push_back(apply(match.candidate.op));
  }
  if (match.factor != 1)
    for (const SizeTerm &term : {constant_term(match.factor), apply(Op::multiply)})
      result.expression.push_back(term);
  if (match.offset)
    for (const SizeTerm &term :
         {constant_term(std::abs(match.offset)), apply(match.offset < 0 ? Op::subtract : Op::add)})
      result.expression.push_back(term);
  return result;
}

} // namespace tracehost::trace
