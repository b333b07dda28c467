#include "program/interruption.h"
#include "program/merge.h"
#include "program/modes.h"
#include "program/pieces.h"
#include "program/places.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/node_hashing.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

/// How graphs are cut (pieces.h).
///
/// A piece is drafted from the graph that was made last; the others are compared with the draft, op
/// by op. Of the ops that all calls run, each graph has only those that its own end needs. So an op
/// that only computes may be missing in the draft, where it is then inserted, or in the graph.
///
///     last:  %a = sin(%x)               check(%n, 1)  return %a
///     other:               %b = cos(%x) check(%n, 2)  return %b
///     draft: %a = sin(%x)  %b = cos(%x)

namespace tracehost {

namespace jit = torch::jit;

namespace {

struct Draft;

/// Where a value of a graph comes from, in terms that all graphs of the tree share.
struct Origin {
  Draft *piece = nullptr; ///< null: an input of the graph
  jit::Value *value = nullptr;
  std::size_t input = 0; ///< its place among the tree's

  friend bool operator==(const Origin &, const Origin &) = default;
};

struct OriginHash {
  std::size_t operator()(const Origin &origin) const {
    return std::hash<const void *>()(origin.value) ^ origin.input;
  }
};

/// A Piece in the making.
struct Draft {
  std::shared_ptr<jit::Graph> graph = std::make_shared<jit::Graph>();
  std::vector<Origin> taken; ///< in the order of the graph's inputs
  std::unordered_map<Origin, jit::Value *, OriginHash> inputs;
  std::vector<jit::Value *> given;
  jit::Value *number = nullptr; ///< null: a leaf
  std::vector<Draft *> behind;
  std::shared_ptr<const Piece> piece;
};

/// A graph on its way into the tree.
struct Member {
  struct CheckNode {
    const jit::Node *node;
    Check check;
  };
  const Beginning *start = nullptr;
  std::size_t index = 0;
  std::vector<CheckNode> checks;   ///< of the outermost block
  const jit::Node *next = nullptr; ///< the first node that is in no draft
  std::unordered_map<const jit::Value *, Origin> origins;
  std::unordered_map<std::size_t, std::int32_t> inputs; ///< by their place among the tree's
  std::vector<std::pair<Draft *, Check>> links;
};

/// The graph of this Member is not as the others are.
struct Unlike {
  std::size_t index;
  bool at_root = true;
  std::size_t last = 0; ///< the check up to which it is; not at the root
};

bool is_constant(const jit::Value *value) { return value->node()->kind() == c10::prim::Constant; }

bool is_named(const jit::Node &node, std::string_view name) {
  return node.kind().toQualString() == name;
}

bool is_check(const jit::Node &node) {
  return is_named(node, "tracehost::check_number") || is_named(node, "tracehost::check_kind");
}

/// A bool is made a number by an op: a trace's is tracehost::number, an archive's aten::item. None
/// if it is no constant.
c10::IValue expected_by(const jit::Node &check) {
  const jit::Value *expected = check.input(1);
  const jit::Node &made = *expected->node();
  if (is_named(made, "tracehost::number") || is_named(made, "aten::item"))
    expected = made.input(0);
  const c10::IValue constant = jit::toIValue(expected).value_or(c10::IValue());
  return constant.isTensor() ? c10::IValue(constant.toTensor().item()) : constant;
}

bool same_constant(const jit::Value *a, const jit::Value *b) {
  const auto held = jit::toIValue(a), other = jit::toIValue(b);
  return (held && other && held->is(*other)) || jit::EqualNode()(a->node(), b->node());
}

/// A guard of a front end could see what the node does.
bool can_be_seen(const jit::Node &node) {
  return is_mode(node) || is_named(node, "tracehost::save_data") ||
         is_named(node, "tracehost::save_grad");
}

/// The tree of pieces of some graphs.
class Tree {
public:
  using Ends = std::set<std::pair<std::size_t, std::size_t>>;

  /// Null graphs are left out. `ends`: the members, with the check behind which they share nothing.
  Tree(const std::vector<Beginning> &graphs, const Ends &ends) : ends_(ends) {
    for (std::size_t i = 0; i < graphs.size(); ++i)
      if (graphs[i].graph)
        add(graphs[i], i);
  }

  /// Throws Unlike.
  void draft() {
    std::vector<Member *> all;
    for (Member &member : members_)
      all.insert(all.begin(), &member); // the last graph is the pattern
    split(std::move(all), nullptr, 0);
  }
  void compile(const std::string &name);
  std::unique_ptr<Chain> chain(std::size_t index) const;

private:
  void add(const Beginning &start, std::size_t index);
  static bool agree(const std::vector<Member *> &members, std::size_t k);
  void split(std::vector<Member *> members, Draft *before, std::size_t last);
  std::vector<std::vector<Member *>> by_number(const std::vector<Member *> &members, Draft &draft,
                                               std::size_t check);
  void begin(Draft &draft, Member &member, const jit::Node *end);
  void begin_alike(Draft &draft, Member &member, const jit::Node *end);
  void finish(Member &member, Draft *before);

  Origin origin(const Member &member, const jit::Value *value) const;
  jit::Value *value_in(Draft &draft, const Member &member, const jit::Value *value);
  jit::Node *copy(Draft &draft, Member &member, const jit::Node *node);
  void note(Draft &draft, Member &member, const jit::Node *node, jit::Node *in_draft);
  bool same_value(const Draft &draft, const Member &member, const jit::Value *drafted,
                  const jit::Value *value) const;
  bool same_node(const Draft &draft, Member &member, const jit::Node *drafted,
                 const jit::Node *node) const;
  bool same_block(const Draft &draft, Member &member, const jit::Block *drafted,
                  const jit::Block *block) const;

  const Ends &ends_;
  std::deque<Draft> drafts_;
  std::deque<Member> members_;
  std::unordered_map<const jit::Value *, Origin> of_inputs_; ///< of drafts' graphs
  std::unordered_map<const jit::Value *, std::uint32_t> ids_;
  std::unordered_map<std::string, std::size_t> inputs_; ///< of all graphs
};

void Tree::add(const Beginning &start, std::size_t index) {
  const jit::Graph &graph = *start.graph;
  Member &member = members_.emplace_back();
  member.start = &start;
  member.index = index;
  for (const jit::Node *node : graph.nodes())
    if (is_check(*node))
      member.checks.push_back(
          {node, {is_named(*node, "tracehost::check_kind"), expected_by(*node), place_of(*node)}});
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const std::string &name = start.inputs[i];
    const bool once = std::count(start.inputs.begin(), start.inputs.end(), name) == 1;
    // Of two that have one name, neither is known in another graph.
    const auto key = once ? name : fmt::format("{}\n{}.{}", name, index, i);
    const std::size_t place = inputs_.try_emplace(key, inputs_.size()).first->second;
    member.inputs[place] = static_cast<std::int32_t>(i);
    member.origins[graph.inputs()[i]] = {nullptr, nullptr, place};
  }
  member.next = *graph.nodes().begin();
}

/// Whether the check `k` of all members expects one number.
bool Tree::agree(const std::vector<Member *> &members, std::size_t k) {
  for (const Member *member : members)
    if (k >= member->checks.size())
      throw Unlike{member->index};
  const Check &first = members[0]->checks[k].check;
  for (const Member *member : members) {
    const Check &other = member->checks[k].check;
    if (other.of_kind != first.of_kind || other.expected.isNone())
      throw Unlike{member->index};
    if (!other.holds(first.expected))
      return false;
  }
  return true;
}

/// The pieces from here to the leaves, of members that agree up to their check `last`.
void Tree::split(std::vector<Member *> members, Draft *before, std::size_t last) {
  std::size_t check = before ? last + 1 : 0;
  while (agree(members, check))
    ++check;
  Draft &draft = drafts_.emplace_back();
  if (before)
    before->behind.push_back(&draft);
  begin(draft, *members[0], members[0]->checks[check].node);
  for (std::size_t i = 1; i < members.size(); ++i)
    begin_alike(draft, *members[i], members[i]->checks[check].node);
  for (const Member *member : members)
    for (const Origin &taken : draft.taken)
      if (!taken.piece && !member->inputs.contains(taken.input))
        throw Unlike{member->index}; // what another one computes needs it
  for (auto &group : by_number(members, draft, check)) {
    const auto ends = [&](const Member *member) { return ends_.contains({member->index, check}); };
    if (group.size() == 1 || std::any_of(group.begin(), group.end(), ends)) {
      for (Member *member : group)
        finish(*member, &draft);
      continue;
    }
    try {
      split(group, &draft, check);
    } catch (const Unlike &one) {
      throw one.at_root ? Unlike{one.index, false, check} : one;
    }
  }
}

/// `draft` ends with the check of each member; those with one number go on together.
std::vector<std::vector<Member *>> Tree::by_number(const std::vector<Member *> &members,
                                                   Draft &draft, std::size_t check) {
  const jit::Value *checked = members[0]->checks[check].node->input(0);
  draft.number = value_in(draft, *members[0], checked);
  std::vector<std::vector<Member *>> groups;
  for (Member *member : members) {
    const auto &[node, own] = member->checks[check];
    if (is_constant(node->input(0)) ||
        origin(*member, node->input(0)) != origin(*members[0], checked))
      throw Unlike{member->index};
    member->links.emplace_back(&draft, own);
    member->next = node->next();
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto &with) {
      return with[0]->links.back().second.holds(own.expected);
    });
    if (group == groups.end())
      groups.push_back({member});
    else
      group->push_back(member);
  }
  return groups;
}

/// All nodes of the pattern up to `end`.
void Tree::begin(Draft &draft, Member &member, const jit::Node *end) {
  for (const jit::Node *node = member.next; node != end; node = node->next()) {
    if (can_be_seen(*node))
      throw Unlike{member.index};
    if (node->kind() != c10::prim::Constant)
      draft.graph->appendNode(copy(draft, member, node));
  }
}

/// Finds the nodes of another graph up to `end` in the draft, in their order.
void Tree::begin_alike(Draft &draft, Member &member, const jit::Node *end) {
  jit::Node *at = *draft.graph->nodes().begin();
  for (const jit::Node *node = member.next; node != end; node = node->next()) {
    if (node->kind() == c10::prim::Constant)
      continue;
    jit::Node *found = at;
    jit::Node *const last = draft.graph->return_node();
    while (found != last && !same_node(draft, member, found, node) &&
           (found->kind() == c10::prim::Constant || only_computes(*found)))
      found = found->next();
    if (found != last && same_node(draft, member, found, node)) {
      note(draft, member, node, found);
      at = found->next();
    } else if (only_computes(*node)) {
      copy(draft, member, node)->insertBefore(at);
    } else {
      throw Unlike{member.index};
    }
  }
  for (; at != draft.graph->return_node(); at = at->next())
    if (at->kind() != c10::prim::Constant && !only_computes(*at))
      throw Unlike{member.index};
}

/// The leaf of one graph.
void Tree::finish(Member &member, Draft *before) {
  Draft &draft = drafts_.emplace_back();
  before->behind.push_back(&draft);
  for (const jit::Node *node = member.next; node != member.start->graph->return_node();
       node = node->next())
    if (node->kind() != c10::prim::Constant)
      draft.graph->appendNode(copy(draft, member, node));
  for (const jit::Value *output : member.start->graph->outputs())
    draft.graph->registerOutput(value_in(draft, member, output));
  member.links.emplace_back(&draft, Check{});
}

Origin Tree::origin(const Member &member, const jit::Value *value) const {
  return member.origins.at(value);
}

/// `value` of the member's graph, as a value of the draft's.
jit::Value *Tree::value_in(Draft &draft, const Member &member, const jit::Value *value) {
  if (is_constant(value)) {
    jit::Node *constant = draft.graph->createClone(const_cast<jit::Node *>(value->node()),
                                                   [](jit::Value *v) { return v; });
    draft.graph->prependNode(constant);
    return constant->output();
  }
  const Origin from = origin(member, value);
  if (from.piece == &draft)
    return from.value;
  const auto [known, added] = draft.inputs.try_emplace(from, nullptr);
  if (added) {
    known->second = draft.graph->addInput()->setType(value->type());
    draft.taken.push_back(from);
    of_inputs_[known->second] = from;
    if (from.piece && ids_.try_emplace(from.value, static_cast<std::uint32_t>(ids_.size())).second)
      from.piece->given.push_back(from.value);
  }
  return known->second;
}

jit::Node *Tree::copy(Draft &draft, Member &member, const jit::Node *node) {
  jit::Node *copied =
      draft.graph->createClone(const_cast<jit::Node *>(node),
                               [&](jit::Value *value) { return value_in(draft, member, value); });
  note(draft, member, node, copied);
  return copied;
}

void Tree::note(Draft &draft, Member &member, const jit::Node *node, jit::Node *in_draft) {
  for (std::size_t i = 0; i < node->outputs().size(); ++i)
    member.origins[node->outputs()[i]] = {&draft, in_draft->outputs()[i], 0};
}

bool Tree::same_value(const Draft &draft, const Member &member, const jit::Value *drafted,
                      const jit::Value *value) const {
  if (is_constant(drafted) || is_constant(value))
    return is_constant(drafted) && is_constant(value) && same_constant(drafted, value);
  const auto input = of_inputs_.find(drafted);
  const Origin from = input != of_inputs_.end()
                          ? input->second
                          : Origin{const_cast<Draft *>(&draft), const_cast<jit::Value *>(drafted)};
  return origin(member, value) == from;
}

bool Tree::same_node(const Draft &draft, Member &member, const jit::Node *drafted,
                     const jit::Node *node) const {
  if (drafted->kind() != node->kind() || drafted->inputs().size() != node->inputs().size() ||
      drafted->outputs().size() != node->outputs().size() ||
      drafted->blocks().size() != node->blocks().size() || drafted->hasAttributes() ||
      node->hasAttributes())
    return false;
  for (std::size_t i = 0; i < node->inputs().size(); ++i)
    if (!same_value(draft, member, drafted->input(i), node->input(i)))
      return false;
  for (std::size_t i = 0; i < node->outputs().size(); ++i)
    if (*drafted->outputs()[i]->type() != *node->outputs()[i]->type())
      return false;
  for (std::size_t i = 0; i < node->blocks().size(); ++i)
    if (!same_block(draft, member, drafted->blocks()[i], node->blocks()[i]))
      return false;
  return true;
}

/// Node by node: nothing in a block is left out.
bool Tree::same_block(const Draft &draft, Member &member, const jit::Block *drafted,
                      const jit::Block *block) const {
  if (drafted->inputs().size() != block->inputs().size() ||
      drafted->outputs().size() != block->outputs().size())
    return false;
  const auto pair = [&](jit::Value *inner, const jit::Value *value) {
    member.origins[value] = {const_cast<Draft *>(&draft), inner, 0};
  };
  for (std::size_t i = 0; i < block->inputs().size(); ++i)
    pair(const_cast<jit::Value *>(drafted->inputs()[i]), block->inputs()[i]);
  auto inner = drafted->nodes().begin();
  for (const jit::Node *node : block->nodes()) {
    if (inner == drafted->nodes().end())
      return false;
    if (node->kind() == c10::prim::Constant) {
      if ((*inner)->kind() != c10::prim::Constant)
        return false;
    } else if (!same_node(draft, member, *inner, node)) {
      return false;
    }
    for (std::size_t i = 0; i < node->outputs().size(); ++i)
      pair(const_cast<jit::Value *>((*inner)->outputs()[i]), node->outputs()[i]);
    ++inner;
  }
  if (inner != drafted->nodes().end())
    return false;
  for (std::size_t i = 0; i < block->outputs().size(); ++i)
    if (!same_value(draft, member, drafted->outputs()[i], block->outputs()[i]))
      return false;
  return true;
}

void Tree::compile(const std::string &name) {
  // From the leaves: a piece knows by then what those behind it take.
  for (auto draft = drafts_.rbegin(); draft != drafts_.rend(); ++draft) {
    std::unordered_set<const jit::Value *> later;
    std::vector<const Draft *> behind(draft->behind.begin(), draft->behind.end());
    while (!behind.empty()) {
      const Draft *one = behind.back();
      behind.pop_back();
      for (const Origin &taken : one->taken)
        later.insert(taken.value);
      behind.insert(behind.end(), one->behind.begin(), one->behind.end());
    }
    auto piece = std::make_shared<Piece>();
    for (const Origin &from : draft->taken)
      piece->taken.push_back(
          {!from.piece, from.piece ? ids_.at(from.value) : static_cast<std::uint32_t>(from.input),
           !later.contains(from.value)});
    for (jit::Value *value : draft->given) {
      piece->given.push_back(ids_.at(value));
      draft->graph->registerOutput(value);
    }
    if (draft->number)
      draft->graph->registerOutput(draft->number);
    jit::EliminateDeadCode(draft->graph->block()); // what the pattern's own checks were made of
    const InterruptionChecks checks(*draft->graph);
    piece->code = jit::Code(draft->graph, name);
    draft->piece = std::move(piece);
  }
}

std::unique_ptr<Chain> Tree::chain(std::size_t index) const {
  for (const Member &member : members_) {
    if (member.index != index)
      continue;
    auto chain = std::make_unique<Chain>();
    chain->values = ids_.size();
    chain->inputs.assign(inputs_.size(), -1);
    for (const auto &[place, own] : member.inputs)
      chain->inputs[place] = own;
    for (const auto &[draft, check] : member.links)
      chain->links.push_back({draft->piece, check});
    return chain;
  }
  return nullptr;
}

} // namespace

std::vector<std::unique_ptr<Chain>> cut(std::vector<Beginning> graphs, const std::string &name) {
  std::size_t left = graphs.size();
  Tree::Ends ends;
  while (left > 1) {
    Tree tree(graphs, ends);
    try {
      tree.draft();
    } catch (const Unlike &one) {
      if (!one.at_root) {
        ends.emplace(one.index, one.last);
        continue;
      }
      if (one.index + 1 == graphs.size())
        return {};
      graphs[one.index].graph = nullptr;
      --left;
      continue;
    }
    tree.compile(name);
    std::vector<std::unique_ptr<Chain>> chains;
    for (std::size_t i = 0; i < graphs.size(); ++i)
      chains.push_back(tree.chain(i));
    return chains;
  }
  return {};
}

} // namespace tracehost
