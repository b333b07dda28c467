#include "program/cut_tree.h"

#include <fmt/format.h>
#include <string_view>
#include <torch/csrc/jit/ir/constants.h>
#include <unordered_set>

namespace tracehost {

namespace cutting {
namespace {

bool is_named(const jit::Node &node, std::string_view name) {
  return node.kind().toQualString() == name;
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

/// A guard of a front end could see what the node does.
bool can_be_seen(const jit::Node &node) {
  return is_mode(node) || is_named(node, "tracehost::save_data") ||
         is_named(node, "tracehost::save_grad");
}

} // namespace

void Tree::add(const Beginning &start, std::size_t index) {
  const jit::Graph &graph = *start.graph;
  Member &member = members_.emplace_back();
  member.start = &start;
  member.index = index;
  for (const jit::Node *node : graph.nodes())
    if (is_check(node->kind().toQualString()))
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

/// `draft` ends with the check of each member. Members that expect the same number form a group,
/// which continues together.
std::vector<std::vector<Member *>> Tree::by_number(const std::vector<Member *> &members,
                                                   Draft &draft, std::size_t check) {
  const jit::Value *checked = members[0]->checks[check].node->input(0);
  draft.number = value_in(draft, *members[0], checked);
  std::vector<std::vector<Member *>> groups;
  for (Member *member : members) {
    const auto &[node, own] = member->checks[check];
    if (is_constant(node->input(0)) ||
        member->origins.at(node->input(0)) != members[0]->origins.at(checked))
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

/// `value` of the member's graph, as a value of the draft's.
jit::Value *Tree::value_in(Draft &draft, const Member &member, const jit::Value *value) {
  if (is_constant(value)) {
    jit::Node *constant = draft.graph->createClone(const_cast<jit::Node *>(value->node()),
                                                   [](jit::Value *v) { return v; });
    draft.graph->prependNode(constant);
    return constant->output();
  }
  const Origin from = member.origins.at(value);
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

} // namespace cutting

using cutting::Tree;
using cutting::Unlike;

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
