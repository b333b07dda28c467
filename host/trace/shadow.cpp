#include "trace/shadow.h"

#include "shapes/without_data.h"
#include "trace/op_hook.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <string_view>

namespace tracehost::trace {

namespace jit = torch::jit;

namespace {

/// The rank or the number of their results may depend on sizes.
const std::unordered_set<std::string_view> kOfKind = {
    "aten::squeeze", "aten::squeeze_",     "aten::unbind",      "aten::split",
    "aten::chunk",   "aten::unsafe_split", "aten::unsafe_chunk"};

const auto kNewArray = c10::Symbol::fromQualString("tracehost::array_new");

/// Of one kind: the same number of dimensions, or of items.
bool alike(const c10::IValue &a, const c10::IValue &b) {
  if (a.isTensor() && b.isTensor()) {
    const auto &x = a.toTensor(), &y = b.toTensor();
    return x.defined() == y.defined() && (!x.defined() || x.dim() == y.dim());
  }
  if (!a.isList() || !b.isList())
    return true;
  const auto x = a.toListRef(), y = b.toListRef();
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), alike);
}

} // namespace

std::optional<Shadow::Trouble> Shadow::advance(jit::Graph &graph) {
  jit::Node *end = graph.block()->return_node();
  const auto next = [&] { return last_ ? last_->next() : *graph.block()->nodes().begin(); };
  if (next() == end)
    return std::nullopt;
  const Aside aside;
  const shapes::WithoutData mode;
  for (jit::Node *node = next(); node != end; node = node->next()) {
    const bool known = std::all_of(node->outputs().begin(), node->outputs().end(),
                                   [&](jit::Value *v) { return entries_.contains(v); });
    if (!known || node->outputs().empty())
      if (auto trouble = run(node))
        return trouble;
    note_number(node);
    if (kOfKind.contains(node->kind().toQualString()))
      of_kind.push_back(node);
    last_ = node;
  }
  return std::nullopt;
}

const Shadow::Entry &Shadow::of(jit::Value *value) {
  if (const auto found = entries_.find(value); found != entries_.end())
    return found->second;
  jit::Node *node = value->node();
  if (node->kind() == c10::prim::Param)
    return entries_[value] = input(value);
  const Aside aside;
  const shapes::WithoutData mode;
  if (auto trouble = run(node))
    not_known(node, trouble->leaves);
  return entries_[value];
}

void Shadow::note_number(const jit::Node *node) {
  constexpr std::int64_t most = 1 << 20; // above are bounds that no size has
  if (node->kind() != c10::prim::Constant)
    return;
  const auto value = jit::toIValue(node->output());
  const auto note = [&](std::int64_t n) {
    if (n > -most && n < most)
      largest_number = std::max(largest_number, std::abs(n));
  };
  if (value && value->isInt())
    note(value->toInt());
  else if (value && value->isIntList())
    for (const std::int64_t n : value->toIntVector())
      note(n);
}

void Shadow::restart() {
  entries_.clear();
  last_ = nullptr;
}

void Shadow::give_up(jit::Node *node) { given_up_.insert(node); }

void Shadow::forget(jit::Node *node) {
  given_up_.erase(node);
  std::erase(of_kind, node);
  reported_.erase(node);
  if (last_ != node)
    return;
  last_ = node->prev();
  if (last_ == node->owningBlock()->return_node()) // it was the first
    last_ = nullptr;
}

Shadow::Entry Shadow::input(jit::Value *value) {
  Entry entry;
  if (value->node() != value->owningGraph()->param_node()) {
    entry.leaves = ~LeafSet{0}; // of an inner block: what a loop carries
    return entry;
  }
  const std::size_t index = value->offset();
  const at::Tensor actual = input_(index);
  entry.at.resize(points_.count());
  for (std::size_t p = 0; p < points_.count(); ++p) {
    std::vector<std::int64_t> sizes = actual.sizes().vec();
    for (std::size_t i = 0; i < points_.leaves().size(); ++i)
      if (const auto &leaf = points_.leaves()[i]; leaf.dimension.slot == index) {
        sizes[static_cast<std::size_t>(leaf.dimension.dimension)] = points_.size(i, p);
        if (!leaf.specialized)
          entry.leaves |= SizePoints::bit(i);
      }
    at::Tensor fake_tensor = NodeRunner::fake_tensor(actual, sizes);
    if (fake_tensor.defined())
      entry.known |= 1U << p;
    entry.at[p] = std::move(fake_tensor);
  }
  return entry;
}

void Shadow::not_known(jit::Node *node, LeafSet leaves) {
  for (jit::Value *output : node->outputs()) {
    entries_[output] = {};
    entries_[output].leaves = leaves;
  }
}

/// A size read off an input depends on that one.
LeafSet Shadow::size_leaf(jit::Node *node, LeafSet otherwise) const {
  if (node->kind() != c10::aten::size || node->inputs().size() != 2)
    return otherwise;
  const jit::Value *of = node->input(0);
  const auto dimension = jit::toIValue(node->input(1));
  if (of->node() != of->owningGraph()->param_node() || !dimension || dimension->toInt() < 0)
    return otherwise;
  const int leaf = points_.leaf_at(static_cast<std::uint32_t>(of->offset()), dimension->toInt());
  return leaf < 0 || points_.leaves()[static_cast<std::size_t>(leaf)].specialized
             ? 0
             : SizePoints::bit(static_cast<std::size_t>(leaf));
}

std::optional<Shadow::Trouble> Shadow::run(jit::Node *node) {
  std::uint32_t alive = (1U << points_.count()) - 1;
  LeafSet leaves = 0;
  std::vector<const Entry *> inputs;
  for (jit::Value *value : node->inputs()) {
    inputs.push_back(&of(value));
    alive &= inputs.back()->known;
    leaves |= inputs.back()->leaves;
  }
  leaves = size_leaf(node, leaves);
  if (!node->blocks().empty())
    leaves = ~LeafSet{0}; // what its blocks use from outside is not among the inputs
  if (node->kind() == kNewArray)
    leaves = ~LeafSet{0}; // nor what is put into it
  if (!node->blocks().empty() || node->kind() == kNewArray || !(alive & 1U << SizePoints::real) ||
      given_up_.contains(node)) {
    not_known(node, leaves);
    return std::nullopt;
  }
  const bool unpacks = node->kind() == c10::prim::ListUnpack;
  NodeRunner runner(node);
  std::vector<Entry> outputs(node->outputs().size());
  for (Entry &entry : outputs) {
    entry.at.resize(points_.count());
    entry.leaves = leaves;
  }
  for (std::size_t p = 0; p < points_.count(); ++p) {
    if (!(alive >> p & 1))
      continue;
    if (!leaves && p > SizePoints::real) { // no open size reaches it: once is enough
      for (Entry &output : outputs) {
        output.at[p] = output.at[SizePoints::real];
        output.known |= (output.known & 1U) << p;
      }
      continue;
    }
    std::vector<c10::IValue> values;
    for (const Entry *input : inputs)
      values.push_back(input->at[p]);
    std::vector<c10::IValue> results;
    auto verdict = runner.run(std::move(values), results);
    if (verdict == NodeRunner::Verdict::unknown && p >= SizePoints::kMust)
      continue; // too large there for an op that is run on zeros
    if (verdict == NodeRunner::Verdict::unknown && p != SizePoints::real)
      verdict = NodeRunner::Verdict::failed;
    if (verdict != NodeRunner::Verdict::done && p == SizePoints::real) {
      if (reported_.insert(node).second)
        unknown.push_back({node, p, runner.message(), leaves, false});
      not_known(node, leaves);
      return std::nullopt;
    }
    if (verdict == NodeRunner::Verdict::failed) {
      if (p < SizePoints::kMust)
        return Trouble{node, p, runner.message(), leaves, unpacks};
      if (unpacks)
        differences.push_back({node, p, runner.message(), leaves, true});
      continue;
    }
    for (std::size_t i = 0; i < outputs.size() && i < results.size(); ++i) {
      outputs[i].at[p] = std::move(results[i]);
      outputs[i].known |= 1U << p;
    }
  }
  if (auto trouble = compare(node, outputs))
    return trouble;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    entries_[node->outputs()[i]] = std::move(outputs[i]);
  return std::nullopt;
}

std::optional<Shadow::Trouble> Shadow::compare(jit::Node *node, std::vector<Entry> &outputs) {
  for (Entry &entry : outputs)
    for (std::size_t p = 1; p < points_.count(); ++p) {
      if (!entry.has(p) || alike(entry.at[0], entry.at[p]))
        continue;
      const char *what = entry.at[0].isList() ? " (which gives as many results as the size says)"
                                              : " (whose number of dimensions depends on the size)";
      Trouble trouble{node, p, what, entry.leaves, true};
      if (p < SizePoints::kMust)
        return trouble;
      differences.push_back(std::move(trouble));
      entry.known &= ~(1U << p);
    }
  return std::nullopt;
}

} // namespace tracehost::trace
