#include "program/cut_tree.h"

#include <torch/csrc/jit/ir/constants.h>

/// Whether a node, value or block of another graph is what the draft has.

namespace tracehost::cutting {

bool is_constant(const jit::Value *value) { return value->node()->kind() == c10::prim::Constant; }

namespace {

bool same_constant(const jit::Value *a, const jit::Value *b) {
  const auto held = jit::toIValue(a), other = jit::toIValue(b);
  return (held && other && held->is(*other)) || jit::EqualNode()(a->node(), b->node());
}

} // namespace

bool Tree::same_value(Draft &draft, const Member &member, jit::Value *drafted,
                      const jit::Value *value) const {
  if (is_constant(drafted) || is_constant(value))
    return is_constant(drafted) && is_constant(value) && same_constant(drafted, value);
  const auto input = of_inputs_.find(drafted);
  const Origin from = input != of_inputs_.end() ? input->second : Origin{&draft, drafted};
  return member.origins.at(value) == from;
}

bool Tree::same_node(Draft &draft, Member &member, jit::Node *drafted,
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
bool Tree::same_block(Draft &draft, Member &member, jit::Block *drafted,
                      const jit::Block *block) const {
  if (drafted->inputs().size() != block->inputs().size() ||
      drafted->outputs().size() != block->outputs().size())
    return false;
  for (std::size_t i = 0; i < block->inputs().size(); ++i)
    member.origins[block->inputs()[i]] = {&draft, drafted->inputs()[i], 0};
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
    note(draft, member, node, *inner);
    ++inner;
  }
  if (inner != drafted->nodes().end())
    return false;
  for (std::size_t i = 0; i < block->outputs().size(); ++i)
    if (!same_value(draft, member, drafted->outputs()[i], block->outputs()[i]))
      return false;
  return true;
}

} // namespace tracehost::cutting
