#include "trace/relaxed_sizes.h"

#include "shapes/fake_tensor.h"
#include "trace/size_algebra.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

#include <algorithm>
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

/// Sizes as they are at the trace, for evaluating a condition.
class TraceSizes final : public SizeSource {
public:
  TraceSizes(const SizePoints &points, std::size_t point) : points_(points), point_(point) {}
  std::int64_t size(std::int32_t slot, std::int32_t dimension) const override {
    const int leaf = points_.leaf_at(static_cast<std::uint32_t>(slot), dimension);
    return points_.size(static_cast<std::size_t>(leaf), point_);
  }

private:
  const SizePoints &points_;
  std::size_t point_;
};

} // namespace

RelaxedSizes::RelaxedSizes(const std::vector<at::Tensor> &slots, const Relaxation &relaxation,
                           Frontend &frontend, Traced &result,
                           std::function<void(const std::string &)> refuse)
    : relaxation_(relaxation), slots_(slots.size()), frontend_(frontend), result_(result),
      refuse_(std::move(refuse)), points_(slots, relaxation),
      shadow_(points_,
              [slots, &result](std::size_t i) {
                return i < slots.size() ? slots[i] : result.captures[i - slots.size()].tensor;
              }),
      reader_(shadow_, points_) {}

jit::Graph &RelaxedSizes::graph() const { return *tracer::getTracingState()->graph; }

jit::Value *RelaxedSizes::value_of(const at::Tensor &t) const {
  const auto &state = tracer::getTracingState();
  return state && state->hasValue(t) ? state->getValue(t) : nullptr;
}

std::string RelaxedSizes::name(const SizePoints::Leaf &leaf) const {
  const std::size_t slot = leaf.dimension.slot;
  const std::string input = SizePoints::is_unmet(leaf.dimension.slot)
                                ? relaxation_.captures[slot - SizePoints::unmet(0)].path
                            : slot >= slots_                  ? result_.captures[slot - slots_].path
                            : slot < relaxation_.names.size() ? relaxation_.names[slot]
                                                              : "input " + std::to_string(slot);
  return fmt::format("{}.shape[{}]", input, leaf.dimension.dimension);
}

void RelaxedSizes::captured(const at::Tensor &t, std::size_t input) {
  const auto &captures = relaxation_.captures;
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
    for (Pin &pin : result_.pins)
      if (pin.dimension.slot == SizePoints::unmet(i))
        pin.dimension.slot = place;
  }
}

void RelaxedSizes::note(const std::string &text) {
  if (noted_.insert(text).second)
    result_.notes.push_back(text);
}

// ---- Running what was recorded, and what to do about ops that don't fit

void RelaxedSizes::advance() {
  while (const auto trouble = shadow_.advance(graph()))
    solve(*trouble);
  collect();
}

/// Ops whose results differ in kind at size 1, or where equal sizes are not: conditions.
void RelaxedSizes::collect() {
  const std::string where = text(frontend_.here());
  for (const auto &t : std::exchange(shadow_.unknown, {}))
    note(fmt::format("{} at {} can't be run without data ({}): sizes after it are not checked",
                     t.node->kind().toQualString(), where, t.message));
  for (const auto &t : std::exchange(shadow_.differences, {})) {
    if (t.point == SizePoints::large) {
      pin_leaves(t.leaves, t.node->kind().toQualString() + t.message, frontend_.here());
    } else if (t.point == SizePoints::ones) {
      for (std::size_t i = 0; i < points_.leaves().size(); ++i)
        if (const auto &leaf = points_.leaves()[i];
            points_.contains(t.leaves, i) && !leaf.pinned && leaf.size != 1)
          add(comparison(size_of(leaf), {{Op::constant, -1, -1, 1}}, Op::equal), false);
    } else {
      for (const std::size_t symbol : points_.open_symbols(t.leaves))
        require_equal(symbol);
    }
  }
}

/// Whether all nodes up to `node` fit with the points as they are now.
bool RelaxedSizes::passes(jit::Node *node) {
  shadow_.restart();
  const auto trouble = shadow_.advance(graph());
  return !trouble || node->isBefore(trouble->node);
}

bool RelaxedSizes::holds_with(const std::vector<std::size_t> &symbols, int attempt,
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

bool RelaxedSizes::holds_without(const std::vector<std::size_t> &symbols, jit::Node *node) {
  std::vector<std::size_t> leaves;
  for (const std::size_t s : symbols)
    for (const std::size_t leaf : points_.open_leaves(s))
      leaves.push_back(leaf);
  for (const std::size_t leaf : leaves)
    points_.pin(leaf);
  const bool passed = passes(node);
  for (const std::size_t leaf : leaves)
    points_.unpin(leaf);
  return passed;
}

/// An op that fails at another size may have bounds (a table of 16 positions, a kernel of 5) or
/// divide sizes: other sizes are tried before a dimension is taken to be exact, and then the
/// smallest set of them.
void RelaxedSizes::solve(const Shadow::Trouble &trouble) {
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
  if ((relaxation_.pins != Pins::all && !trouble.in_kind) || symbols.empty()) {
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
      return pin_leaves(leaves, why, where);
    }
  pin_leaves(trouble.leaves, why, where);
}

void RelaxedSizes::after(const std::vector<at::Tensor> &results) {
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

// ---- Pins and conditions

void RelaxedSizes::pin_leaves(LeafSet leaves, const std::string &why, const Site &where) {
  bool any = false;
  for (std::size_t i = 0; i < points_.leaves().size(); ++i) {
    const auto &leaf = points_.leaves()[i];
    if (!points_.contains(leaves, i) || leaf.pinned)
      continue;
    if (relaxation_.pins == Pins::none)
      refuse_(fmt::format("{} at {} needs the value of {}, which is declared to be of any size "
                          "(None). Keep it in torch operations, which take such a size as it is "
                          "(view, zeros, arange, slices), compare it in an `if`, or declare the "
                          "size.",
                          why, text(where), name(leaf)));
    any = true;
    points_.pin(i);
    result_.pins.push_back({leaf.dimension, why, where});
  }
  if (!any)
    return;
  shadow_.restart();
  advance();
}

LeafSet RelaxedSizes::leaves_of(jit::Value *value) {
  const auto read = reader_.read(value);
  return read ? read->leaves : shadow_.of(value).leaves;
}

void RelaxedSizes::pin_value(jit::Value *value, const std::string &why, const Site &where) {
  pin_leaves(leaves_of(value), why, where);
}

void RelaxedSizes::add(SizeExpression expression, bool expected) {
  if (always(expression) == expected)
    return;
  const bool known =
      std::any_of(result_.conditions.begin(), result_.conditions.end(), [&](const auto &c) {
        return c.expression == expression && c.expected == expected;
      });
  if (!known)
    result_.conditions.push_back({std::move(expression), expected, text(frontend_.here())});
}

void RelaxedSizes::require_equal(std::size_t symbol) {
  const auto leaves = points_.open_leaves(symbol);
  for (std::size_t i = 1; i < leaves.size(); ++i)
    add(comparison(size_of(points_.leaves()[leaves[0]]), size_of(points_.leaves()[leaves[i]]),
                   Op::equal),
        true);
}

// ---- Reads

void RelaxedSizes::settle() {
  for (const IndexRead &read : std::exchange(index_reads_, {}))
    if (!take_stashed(read.value))
      pin_value(read.value, "len(), range() or another use of the number itself", read.where);
}

/// torch's argument parser records a size that an op takes by an `aten::Int` right behind it.
bool RelaxedSizes::take_stashed(jit::Value *value) {
  for (jit::Node *node = value->node()->next();
       node->kind() == c10::aten::Int || node->kind() == c10::aten::ScalarImplicit ||
       node->kind() == c10::aten::Float;
       node = node->next())
    if (node->input(0) == value && node->output()->uses().empty() && stashed_.insert(node).second)
      return true;
  return false;
}

std::int64_t RelaxedSizes::index(const at::Tensor &size) {
  jit::Value *value = value_of(size);
  // A slice is read before it is recorded: the next op tells.
  if (value && !take_stashed(value)) {
    advance();
    if (leaves_of(value))
      index_reads_.push_back({value, frontend_.here()});
  }
  const PausedWithData paused;
  return size.item().toLong();
}

std::int64_t RelaxedSizes::pin(const at::Tensor &size, const std::string &why) {
  settle();
  if (jit::Value *value = value_of(size)) {
    advance();
    pin_value(value, why, frontend_.here());
  }
  const PausedWithData paused;
  return size.item().toLong();
}

bool RelaxedSizes::truth(const at::Tensor &t) {
  settle();
  bool actual = false;
  {
    const PausedWithData paused;
    actual = t.item().toLong() != 0;
  }
  jit::Value *value = value_of(t);
  if (!value)
    return actual;
  advance();
  auto read = reader_.read(value);
  bool right = read.has_value();
  for (std::size_t p = 0; right && p < SizePoints::kTogether; ++p) {
    const auto expected = reader_.values(value)[p];
    right = !expected || holds({read->expression, *expected != 0, ""}, TraceSizes(points_, p));
  }
  if (!right) {
    pin_value(value, "a comparison that the sizes of the inputs can't express", frontend_.here());
    return actual;
  }
  const auto fixed = always(read->expression);
  if (fixed && *fixed == actual && read->symbols.empty())
    return actual;
  for (const std::size_t symbol : read->symbols)
    require_equal(symbol);
  if (read->leaves)
    add(std::move(read->expression), actual);
  return actual;
}

/// The size as the body gets it: recorded as libtorch does, with a note of what reads it.
at::Tensor RelaxedSizes::record(jit::Node *node, std::int64_t actual) {
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

/// Whether `measure` of `value`'s tensor may be another number than `actual` at a later call.
template <class F>
bool RelaxedSizes::varies(jit::Value *value, std::int64_t actual, const F &measure) {
  settle();
  advance();
  const Shadow::Entry &entry = shadow_.of(value);
  bool exact = entry.sure();
  for (std::size_t p = 0; exact && p < points_.count(); ++p)
    exact = !entry.has(p) || (entry.at[p].isTensor() && measure(entry.at[p].toTensor()) == actual);
  return !exact && entry.leaves;
}

std::optional<at::Tensor> RelaxedSizes::size(const at::Tensor &t, std::int64_t dimension) {
  jit::Value *value = value_of(t);
  const auto measure = [&](const at::Tensor &other) {
    return other.dim() == t.dim() ? other.size(dimension) : kAnySize;
  };
  if (!value || !varies(value, t.size(dimension), measure))
    return std::nullopt;
  jit::Value *index = graph().insertConstant(dimension);
  return record(graph().create(c10::aten::size, {value, index}), t.size(dimension));
}

std::optional<at::Tensor> RelaxedSizes::numel(const at::Tensor &t) {
  jit::Value *value = value_of(t);
  if (!value || !varies(value, t.numel(), [](const at::Tensor &other) { return other.numel(); }))
    return std::nullopt;
  return record(graph().create(c10::Symbol::aten("numel"), {value}), t.numel());
}

bool RelaxedSizes::is_size(const at::Tensor &t) {
  if (t.dim() != 0 || !at::isIntegralType(t.scalar_type(), true) || !t.device().is_cpu())
    return false;
  jit::Value *value = value_of(t);
  if (!value)
    return false;
  advance();
  return is_size(value);
}

bool RelaxedSizes::is_size(jit::Value *value) {
  jit::Node *node = value->node();
  if (node->kind() == c10::prim::NumToTensor)
    return true;
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

void RelaxedSizes::read_strides(const at::Tensor &t) {
  settle();
  advance();
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
    pin_leaves(entry.leaves, "its strides or offset", frontend_.here());
}

void RelaxedSizes::read_contiguity(const at::Tensor &t) {
  settle();
  advance();
  jit::Value *value = value_of(t);
  if (!value)
    return;
  const Shadow::Entry entry = shadow_.of(value);
  for (std::size_t p = 1; p < points_.count(); ++p) {
    if (!entry.has(p) || !entry.has(0) ||
        entry.at[0].toTensor().is_contiguous() == entry.at[p].toTensor().is_contiguous())
      continue;
    if (p < SizePoints::ones)
      return pin_leaves(entry.leaves, "whether it is contiguous", frontend_.here());
    shadow_.differences.push_back({value->node(), p, "contiguity", entry.leaves, true});
    collect();
  }
}

void RelaxedSizes::split(const at::Tensor &t, std::int64_t dimension, std::int64_t chunks) {
  jit::Value *value = value_of(t);
  if (!value || chunks <= 2) // two for each size but 1, which the points cover
    return;
  advance();
  const Shadow::Entry &entry = shadow_.of(value);
  std::vector<std::optional<std::int64_t>> sizes(points_.count());
  bool same = entry.sure();
  for (std::size_t p = 0; p < sizes.size(); ++p)
    if (entry.has(p) && entry.at[p].isTensor()) {
      sizes[p] = entry.at[p].toTensor().size(dimension);
      same &= sizes[p] == sizes[0];
    }
  if (same)
    return;
  const auto read = reader_.identify(sizes, graph());
  pin_leaves(read ? read->leaves : entry.leaves, "chunk, whose number of results is a size",
             frontend_.here());
}

void RelaxedSizes::split_by(jit::Value *size) {
  advance();
  pin_value(size, "split, whose number of results is a size", frontend_.here());
}

void RelaxedSizes::forget(jit::Node *node) {
  shadow_.forget(node);
  stashed_.erase(node);
  std::erase_if(shadow_.unknown, [&](const Shadow::Trouble &t) { return t.node == node; });
  std::erase_if(shadow_.differences, [&](const Shadow::Trouble &t) { return t.node == node; });
}

void RelaxedSizes::forget(jit::Value *value) {
  shadow_.forget(value);
  given.erase(value);
  std::erase_if(index_reads_, [&](const IndexRead &read) { return read.value == value; });
}

void RelaxedSizes::finish() {
  settle();
  advance();
  // What the body never met is no input.
  std::erase_if(result_.pins, [](const Pin &p) { return SizePoints::is_unmet(p.dimension.slot); });
  std::erase_if(result_.conditions, [](const SizeCondition &c) {
    return std::any_of(c.expression.begin(), c.expression.end(), [](const SizeTerm &term) {
      return term.op == Op::size && SizePoints::is_unmet(static_cast<std::uint32_t>(term.slot));
    });
  });
  for (const SizePoints::Leaf &leaf : points_.leaves())
    if (const auto slot = leaf.dimension.slot;
        !leaf.pinned && slot >= slots_ && !SizePoints::is_unmet(slot))
      result_.relaxed_captures.push_back(leaf.dimension);
  // Of conditions on what became exact later, nothing is left to check.
  std::erase_if(result_.conditions, [&](const SizeCondition &c) {
    return std::all_of(c.expression.begin(), c.expression.end(), [&](const SizeTerm &term) {
      return term.op != Op::size || points_
                                        .leaves()[static_cast<std::size_t>(points_.leaf_at(
                                            static_cast<std::uint32_t>(term.slot), term.dimension))]
                                        .pinned;
    });
  });
}

} // namespace tracehost::trace
