#include "trace/head.h"

#include "program/numbers.h"

namespace tracehost::trace {

namespace jit = torch::jit;

namespace {

/// An op without effects that gives one scalar.
bool is_of_numbers(const jit::Node *node) {
  static const auto number = c10::Symbol::fromQualString("tracehost::number");
  return node->kind() == c10::prim::Constant || node->kind() == number ||
         is_number_op(node->kind().toQualString());
}

} // namespace

bool Head::reaches(const jit::Value *scalar) const {
  const jit::Node *node = scalar->node();
  if (nodes_.contains(node))
    return true;
  if (!is_of_numbers(node))
    return false;
  for (const jit::Value *input : node->inputs())
    if (!reaches(input))
      return false;
  return true;
}

void Head::take(jit::Value *scalar) {
  jit::Node *node = scalar->node();
  if (nodes_.contains(node))
    return;
  for (jit::Value *input : node->inputs())
    take(input);
  if (end_)
    node->moveAfter(end_);
  else
    node->moveBefore(*graph_.block()->nodes().begin());
  nodes_.insert(node);
  end_ = node;
}

} // namespace tracehost::trace
