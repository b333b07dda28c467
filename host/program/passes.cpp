#include "program/passes.h"

#include "program/device_flags.h"
#include "program/merge.h"
#include "program/nodes.h"
#include "shapes/op_names.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/shape_analysis.h>

#include <cstdint>
#include <limits>

namespace tracehost {
namespace {

// torch.tensor(...) ends with ops that return what they are given; after a literal's clone (a fresh
// tensor without history) lift_fresh and detach have nothing left to do.
void drop_identity(torch::jit::Node *node) {
  if (node->kind() != c10::Symbol::fromQualString("aten::lift_fresh"))
    return;
  node->output()->replaceAllUsesWith(node->input());
  node->destroy();
}

// Python's randint_like makes its result below autograd; the op as a graph calls it takes over x's
// requires_grad, without a derivative.
void detach_randint_like(torch::jit::Node *node) {
  if (node->kind() != c10::Symbol::fromQualString("aten::randint_like"))
    return;
  auto *detach = node->owningGraph()->create(c10::aten::detach, {node->output()});
  detach->insertAfter(node);
  node->output()->replaceAllUsesAfterNodeWith(detach, detach->output());
}

bool is_full_slice(const torch::jit::Node &node) {
  if (node.kind() != c10::aten::slice || node.inputs().size() != 5)
    return false;
  const auto is = [&node](std::size_t input, std::int64_t wanted) {
    const auto value = torch::jit::toIValue(node.input(input));
    return value && value->isInt() && value->toInt() == wanted;
  };
  return is(2, 0) && is(3, std::numeric_limits<std::int64_t>::max()) && is(4, 1);
}

const auto kOfAnIndex =
    op_names("prim::Constant prim::ListConstruct aten::clone aten::to aten::slice");

/// Whether the nodes from `first` to `last` only make what an index is.
bool only_index_between(const torch::jit::Node &first, const torch::jit::Node &last) {
  const torch::jit::Node *node = first.next();
  while (node != &last && kOfAnIndex.contains(node->kind().toQualString()))
    node = node->next();
  return node == &last;
}

// `x[:, rows]` slices x while it is traced, and does not in eager: the slice costs a copy in a
// backward pass, which also changes the version of x's gradient.
void drop_full_slices(torch::jit::Node *node) {
  if (node->kind() != c10::aten::index)
    return;
  for (torch::jit::Node *slice = node->input(0)->node();
       is_full_slice(*slice) && slice->output()->uses().size() == 1 &&
       slice->owningBlock() == node->owningBlock() && only_index_between(*slice, *node);
       slice = node->input(0)->node()) {
    node->replaceInput(0, slice->input(0));
    slice->destroy();
  }
}

const std::unordered_set<std::string_view> kElementwise = {"aten::add",  "aten::sub",  "aten::mul",
                                                           "aten::div",  "aten::add_", "aten::sub_",
                                                           "aten::mul_", "aten::div_"};

/// The 0-dim number that `x + 1` makes of 1, if `value` is a constant of that kind.
at::Tensor wrapped_number(const torch::jit::Value *value) {
  if (value->node()->kind() != c10::prim::Constant)
    return {};
  const auto constant = torch::jit::toIValue(value);
  if (!constant || !constant->isTensor() || !constant->toTensor().defined() ||
      !constant->toTensor().unsafeGetTensorImpl()->is_wrapped_number())
    return {};
  return constant->toTensor();
}

// `x + 1` records 1 as a 0-dim int64 (1.5: float64) tensor, which the op converts to x's dtype at
// every call: a quarter of a small graph's time. A Specialization's dtypes are exact, so it is
// converted once. Same value, as it is the op's own conversion; half types are left: their kernels
// compute in float32.
void convert_number(torch::jit::Node *node) {
  if (!kElementwise.contains(node->kind().toQualString()) || node->inputs().size() < 2)
    return;
  const at::Tensor number = wrapped_number(node->input(1));
  const auto type = node->input(0)->type()->cast<c10::TensorType>();
  if (!number.defined() || number.is_complex() || !type || !type->scalarType())
    return;
  const at::ScalarType dtype = *type->scalarType();
  if ((dtype != at::kFloat && dtype != at::kDouble) || number.scalar_type() == dtype)
    return;
  // No longer marked as a number: of one dtype with x it needs no rank in type promotion, and torch
  // knows only int64 and float64 ones.
  // As the op does it: a value past the range becomes an infinity.
  const at::Tensor converted = number.to(dtype);
  const torch::jit::WithInsertPoint here(node);
  node->replaceInput(1, node->owningGraph()->insertConstant(converted));
}

/// Puts a number in place of a bool among the node's inputs; whether there was one.
bool convert_truth(torch::jit::Node *node, std::size_t input) {
  torch::jit::Value *truth = node->input(input);
  const auto constant = torch::jit::toIValue(truth);
  if (!constant || !constant->isBool())
    return false;
  const torch::jit::WithInsertPoint here(node);
  node->replaceInput(input, insert_truth(*node->owningGraph(), truth));
  return true;
}

void convert_truths_of(torch::jit::Node *node) {
  if (!node->kind().is_aten() || node->maybeOperator())
    return;
  const std::size_t count = node->inputs().size();
  for (std::size_t i = 0; i < count && !node->maybeOperator(); ++i) {
    torch::jit::Value *before = node->input(i);
    if (!convert_truth(node, i) || node->maybeOperator())
      continue;
    torch::jit::Node *converted = node->input(i)->node(); // it is not this one
    node->replaceInput(i, before);
    converted->destroy();
  }
  for (std::size_t i = 0; i < count && !node->maybeOperator(); ++i)
    convert_truth(node, i);
}

} // namespace

torch::jit::Value *insert_truth(torch::jit::Graph &graph, torch::jit::Value *truth) {
  torch::jit::Value *number = insert_op(graph, "tracehost::number", {truth}, 1)->output();
  return number->setType(c10::NumberType::get());
}

void convert_truths(torch::jit::Block *block) { each_node(block, convert_truths_of); }

void prepare(const std::shared_ptr<torch::jit::Graph> &graph, bool merges) {
  torch::jit::Inline(*graph);
  each_node(graph->block(), drop_identity);
  torch::jit::LowerSimpleTuples(graph->block());
  torch::jit::EliminateDeadCode(graph->block()); // trace/tracer.cpp says why this one
  each_node(graph->block(), detach_randint_like);
  each_node(graph->block(), drop_full_slices);
  each_node(graph->block(), convert_number);
  read_device_flags(graph->block());
  if (merges)
    merge_equal(*graph->block());
  // Types still carry the sizes of the traced call; later passes and reports must not rely on them.
  torch::jit::EraseShapeInformation(graph);
  // No ConstantPooling: it merges a number (`x + 1`) with an equal 0-dim tensor, whose dtype weighs
  // more.
}

} // namespace tracehost
