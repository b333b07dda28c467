#include "trace/dynamic_sizes.h"

#include "shapes/fake_tensor.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace tracehost::trace {

namespace jit = torch::jit;
namespace tracer = torch::jit::tracer;

namespace {

using Op = SizeTerm::Op;

SizeExpression comparison(SizeExpression left, const SizeExpression &right, Op op) {
  left.insert(left.end(), right.begin(), right.end());
  left.push_back({op, -1, -1, 0});
  return left;
}

SizeExpression size_of(const SizePoints::Leaf &leaf) {
  return {{Op::size, static_cast<std::int32_t>(leaf.dimension.slot), leaf.dimension.dimension, 0}};
}

} // namespace

DynamicSizes::DynamicSizes(const std::vector<at::Tensor> &slots, const DynamicDimensions &dynamic,
                           Frontend &frontend, Traced &result,
                           std::function<void(const std::string &)> reject)
    : dynamic_(dynamic), slots_(slots.size()), frontend_(frontend), result_(result),
      reject_(std::move(reject)), points_(slots, dynamic),
      shadow_(points_,
              [slots, &result](std::size_t i) {
                return i < slots.size() ? slots[i] : result.captures[i - slots.size()].tensor;
              }),
      reader_(shadow_, points_, [slots, &result](std::size_t i) {
        return i < slots.size() ? slots[i] : result.captures[i - slots.size()].tensor;
      }) {}

jit::Graph &DynamicSizes::graph() const { return *tracer::getTracingState()->graph; }

jit::Value *DynamicSizes::value_of(const at::Tensor &t) const {
  const auto &state = tracer::getTracingState();
  return state && state->hasValue(t) ? state->getValue(t) : nullptr;
}

std::string DynamicSizes::name(const SizePoints::Leaf &leaf) const {
  const std::size_t slot = leaf.dimension.slot;
  const std::string input = SizePoints::is_unmet(leaf.dimension.slot)
                                ? dynamic_.captures[slot - SizePoints::unmet(0)].path
                            : slot >= slots_               ? result_.captures[slot - slots_].path
                            : slot < dynamic_.names.size() ? dynamic_.names[slot]
                                                           : "input " + std::to_string(slot);
  return fmt::format("{}.shape[{}]", input, leaf.dimension.dimension);
}

void DynamicSizes::captured(const at::Tensor &t, std::size_t input) {
  const auto &captures = dynamic_.captures;
  for (std::size_t i = 0; i < captures.size(); ++i) {
    if (!captures[i].tensor.is_same(t))
      continue;
    const auto place = static_cast<std::uint32_t>(input);
    points_.meet(i, place);
    const auto unmet = static_cast<std::int32_t>(SizePoints::unmet(i));
    for (SizeCondition &condition : result_.conditions)
      for (SizeTerm &term : condition.expression)
        if (term.op == Op::size && term.slot == unmet)
          term.slot = static_cast<std::int32_t>(place);
    for (SpecializedDimension &one : result_.specialized)
      if (one.dimension.slot == SizePoints::unmet(i))
        one.dimension.slot = place;
  }
}

void DynamicSizes::note(const std::string &text) {
  if (noted_.insert(text).second)
    result_.notes.push_back(text);
}

// ---- Running what was recorded, and what to do about ops that don't fit

void DynamicSizes::advance() {
  while (const auto trouble = shadow_.advance(graph()))
    solve(*trouble);
  collect();
}

/// Ops whose results differ in kind at size 1, or where equal sizes are not: conditions.
void DynamicSizes::collect() {
  const std::string where = text(frontend_.here());
  for (jit::Node *node : std::exchange(shadow_.of_kind, {}))
    settle_kind(node);
  for (const auto &t : std::exchange(shadow_.unknown, {}))
    note(fmt::format("{} at {} can't be run without data ({}): sizes after it are not checked",
                     t.node->kind().toQualString(), where, t.message));
  for (const auto &t : std::exchange(shadow_.differences, {})) {
    const bool unpacks = t.node->kind() == c10::prim::ListUnpack;
    if (t.in_kind && proved_.contains(unpacks ? t.node->input(0)->node() : t.node))
      continue;
    if (t.point == SizePoints::large) {
      specialize_leaves(t.leaves, t.node->kind().toQualString() + t.message, frontend_.here());
    } else if (t.point == SizePoints::ones) {
      for (std::size_t i = 0; i < points_.leaves().size(); ++i)
        if (const auto &leaf = points_.leaves()[i];
            points_.contains(t.leaves, i) && !leaf.specialized && leaf.size != 1)
          add(comparison(size_of(leaf), {{Op::constant, -1, -1, 1}}, Op::equal), false);
    } else {
      for (const std::size_t symbol : points_.open_symbols(t.leaves))
        require_equal(symbol);
    }
  }
}

/// The rank of what squeeze gives, and how many pieces a tensor is taken into, follow from sizes:
/// conditions.
void DynamicSizes::settle_kind(jit::Node *node) {
  const LeafSet leaves = shadow_.of(node->output()).leaves;
  const bool squeezes = std::string_view(node->kind().toQualString()).starts_with("aten::squeeze");
  const auto require = [&](const Size &size, std::int64_t value, bool expected) {
    const Size holds = Size::made(Op::equal, size, value);
    if (!holds.constant())
      add(holds.expression(), expected);
    add(size.needs());
  };
  if (!squeezes) {
    const Size count = leaves ? reader_.rules().count(node) : Size();
    const auto actual = reader_.rules().at_trace(count);
    if (!actual)
      return;
    require(count, *actual, true);
    proved_.insert(node);
    return;
  }
  const auto sizes = leaves ? reader_.rules().squeezed_sizes(node) : Dims();
  const bool known = sizes && std::all_of(sizes->begin(), sizes->end(),
                                          [](const Size &size) { return size.known(); });
  if (!known)
    return specialize_leaves(leaves, "squeeze, by sizes that are not known", frontend_.here());
  for (const Size &size : *sizes)
    require(size, 1, reader_.rules().at_trace(size) == 1);
  proved_.insert(node);
}

/// Whether all nodes up to `node` fit with the points as they are now.
bool DynamicSizes::passes(jit::Node *node) {
  shadow_.restart();
  const auto trouble = shadow_.advance(graph());
  return !trouble || node->isBefore(trouble->node);
}

bool DynamicSizes::holds_with(const std::vector<std::size_t> &symbols, int attempt,
                              jit::Node *node) {
  std::vector<int> before;
  bool possible = true;
  for (const std::size_t s : symbols) {
    before.push_back(points_.attempt(s));
    possible &= points_.attempt(s, attempt);
  }
  if (possible && passes(node))
    return true;
  for (std::size_t i = 0; i < symbols.size(); ++i)
    points_.attempt(symbols[i], before[i]);
  return false;
}

bool DynamicSizes::holds_without(const std::vector<std::size_t> &symbols, jit::Node *node) {
  std::vector<std::size_t> leaves;
  for (const std::size_t s : symbols)
    for (const std::size_t leaf : points_.open_leaves(s))
      leaves.push_back(leaf);
  for (const std::size_t leaf : leaves)
    points_.specialize(leaf);
  const bool passed = passes(node);
  for (const std::size_t leaf : leaves)
    points_.unspecialize(leaf);
  return passed;
}

/// An op that fails at another size may have bounds (a table of 16 positions, a kernel of 5) or
/// divide sizes: other sizes are tried before a dimension is taken to be exact, and then the
/// smallest set of them.
void DynamicSizes::solve(const Shadow::Trouble &trouble) {
  const auto symbols = points_.open_symbols(trouble.leaves);
  const bool unpacks = trouble.node->kind() == c10::prim::ListUnpack;
  const std::string what =
      (unpacks ? trouble.node->input(0)->node() : trouble.node)->kind().toQualString();
  for (int attempt = 1; attempt < SizePoints::kAttempts; ++attempt)
    if (holds_with(symbols, attempt, trouble.node))
      return;
  const std::string why = trouble.in_kind
                              ? what + trouble.message
                              : fmt::format("{} fails at another size: {}", what, trouble.message);
  const Site where = frontend_.here();
  if ((dynamic_.may_specialize != MaySpecialize::all && !trouble.in_kind) || symbols.empty()) {
    note(fmt::format("{} at {} fails at other sizes ({})", what, text(where), trouble.message));
    shadow_.give_up(trouble.node);
    shadow_.restart();
    return;
  }
  for (const std::size_t symbol : symbols)
    if (symbols.size() > 1 && holds_without({symbol}, trouble.node)) {
      LeafSet leaves = 0;
      for (const std::size_t leaf : points_.open_leaves(symbol))
        leaves |= SizePoints::bit(leaf);
      return specialize_leaves(leaves, why, where);
    }
  specialize_leaves(trouble.leaves, why, where);
}

void DynamicSizes::after(const std::vector<at::Tensor> &results) {
  advance();
  for (const at::Tensor &t : results) {
    jit::Value *value = value_of(t);
    const Shadow::Entry *entry = value ? &shadow_.of(value) : nullptr;
    if (!entry || !entry->has(SizePoints::real) || !entry->at[SizePoints::real].isTensor())
      continue;
    const at::Tensor &meta = entry->at[SizePoints::real].toTensor();
    if (!meta.defined() || meta.sizes() == t.sizes())
      continue;
    note(fmt::format("{} at {} gives other sizes without data: sizes after it are not checked",
                     value->node()->kind().toQualString(), text(frontend_.here())));
    shadow_.give_up(value->node());
    shadow_.restart();
    advance();
  }
}

// ---- MaySpecialize and conditions

void DynamicSizes::specialize_leaves(LeafSet leaves, const std::string &why, const Site &where) {
  bool any = false;
  for (std::size_t i = 0; i < points_.leaves().size(); ++i) {
    const auto &leaf = points_.leaves()[i];
    if (!points_.contains(leaves, i) || leaf.specialized)
      continue;
    if (dynamic_.may_specialize == MaySpecialize::none)
      reject_(fmt::format("{} at {} needs the value of {}, which is declared dynamic "
                          "(None). Keep it in torch operations, which take such a size as it is "
                          "(view, zeros, arange, slices), compare it in an `if`, or declare the "
                          "size.",
                          why, text(where), name(leaf)));
    any = true;
    points_.specialize(i);
    result_.specialized.push_back({leaf.dimension, why, where});
  }
  if (!any)
    return;
  reader_.rules().restart();
  shadow_.restart();
  advance();
}

LeafSet DynamicSizes::leaves_of(jit::Value *value) {
  const auto read = reader_.read(value);
  return read ? read->leaves : shadow_.of(value).leaves;
}

void DynamicSizes::specialize_value(jit::Value *value, const std::string &why, const Site &where) {
  specialize_leaves(leaves_of(value), why, where);
}

void DynamicSizes::add(SizeExpression expression, bool expected) {
  if (always(expression) == expected)
    return;
  const bool known =
      std::any_of(result_.conditions.begin(), result_.conditions.end(), [&](const auto &c) {
        return c.expression == expression && c.expected == expected;
      });
  if (!known)
    result_.conditions.push_back({std::move(expression), expected, text(frontend_.here())});
}

void DynamicSizes::add(const std::vector<Size::Need> &needs) {
  for (const Size::Need &need : needs)
    add(need.expression, need.expected);
}

void DynamicSizes::require_equal(std::size_t symbol) {
  const auto leaves = points_.open_leaves(symbol);
  for (std::size_t i = 1; i < leaves.size(); ++i)
    add(comparison(size_of(points_.leaves()[leaves[0]]), size_of(points_.leaves()[leaves[i]]),
                   Op::equal),
        true);
}

} // namespace tracehost::trace
