#include "archive/lower.h"

#include "archive/error.h"
#include "program/autograd_ops.h"
#include "program/modes.h"
#include "program/numbers.h"
#include "program/places.h"
#include "program/undo.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <string_view>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

const c10::Symbol kTruth = c10::Symbol::fromQualString("tracehost::py_truth");

void rename(jit::Node *node, const std::string &op) {
  jit::Graph &graph = *node->owningGraph();
  const jit::WithInsertPoint here(node);
  jit::Node *made = insert_op(graph, op, node->inputs(), node->outputs().size());
  made->setSourceRange(node->sourceRange());
  for (std::size_t i = 0; i < node->outputs().size(); ++i) {
    made->output(i)->setType(node->output(i)->type());
    node->output(i)->replaceAllUsesWith(made->output(i));
  }
  node->destroy();
}

/// What an exception has besides its text is not stored. One of another class than Python's own is
/// TorchScript's exception.
void lower_raise(jit::Node *node) {
  if (!is_exception(jit::toIValue(node->input(0))->toStringRef()))
    return raise_by_torchscript(node);
  const jit::WithInsertPoint here(node);
  node->replaceInput(2, node->owningGraph()->insertConstant(std::string()));
}

void lower_node(jit::Node *node) {
  const std::string_view name = node->kind().toQualString();
  if (is_autocast(*node)) // its casts are in the graph
    node->destroy();
  else if (name == "tracehost::data")
    rename(node, "prim::data");
  else if (name == "tracehost::set_data")
    rename(node, "aten::set_data");
  else if (name == "tracehost::requires_grad_")
    rename(node, "aten::requires_grad_");
  else if (name == "tracehost::raise_error")
    lower_raise(node);
}

/// Constants that require grad, or hold no data of a kind that is stored.
void lift_constants(Lowered &lowered, std::size_t inputs) {
  each_node(lowered.graph->block(), [&](jit::Node *node) {
    const at::Tensor t = constant_tensor(*node);
    if (!t.defined() || !t.requires_grad())
      return;
    const auto known = std::find_if(lowered.constants.begin(), lowered.constants.end(),
                                    [&](const at::Tensor &other) { return other.is_same(t); });
    const auto index = static_cast<std::size_t>(known - lowered.constants.begin());
    if (known == lowered.constants.end()) {
      lowered.graph->addInput();
      lowered.constants.push_back(t);
    }
    node->output()->replaceAllUsesWith(lowered.graph->inputs()[inputs + index]);
    node->destroy();
  });
}

jit::Value *insert(jit::Graph &graph, c10::Symbol op, jit::Value *input, const c10::TypePtr &type) {
  return graph.insertNode(graph.create(op, {input}, 1))->output()->setType(type);
}

/// A reader takes types from schemas, where numbers are Scalars: an int, a float and a bool say so.
void type_numbers(jit::Node *node) {
  const bool makes_number =
      is_number_op(node->kind().toQualString()) || node->kind() == c10::aten::item;
  if (!makes_number || node->outputs().size() != 1)
    return;
  jit::Value *output = node->output();
  const c10::TypePtr type = output->type();
  const bool real = type == c10::FloatType::get(), truth = type == c10::BoolType::get();
  if (!real && !truth && type != c10::IntType::get())
    return;
  output->setType(c10::NumberType::get());
  jit::Graph &graph = *node->owningGraph();
  const jit::WithInsertPoint behind(node->next());
  jit::Value *typed =
      insert(graph, real ? c10::aten::Float : c10::aten::Int, output,
             real ? c10::TypePtr(c10::FloatType::get()) : c10::TypePtr(c10::IntType::get()));
  typed->node()->setSourceRange(node->sourceRange());
  output->replaceAllUsesAfterNodeWith(typed->node(), typed);
  if (!truth)
    return;
  jit::Value *as_truth = insert(graph, c10::aten::Bool, typed, c10::BoolType::get());
  as_truth->node()->setSourceRange(node->sourceRange());
  typed->replaceAllUsesAfterNodeWith(as_truth->node(), as_truth);
}

void describe(Lowered &lowered) {
  each_node(lowered.graph->block(), [&](jit::Node *node) {
    const std::string space = node->kind().ns().toUnqualString();
    auto &known = lowered.libraries;
    if (space != "aten" && space != "prim" && space != "tracehost" &&
        std::find(known.begin(), known.end(), space) == known.end())
      known.push_back(space);
    lowered.sets_modes |= std::string_view(node->kind().toQualString()) == "aten::set_grad_enabled";
    if (node->kind() != c10::prim::Constant)
      return;
    const auto constant = jit::toIValue(node->output());
    if (constant && constant->isDevice() && !constant->toDevice().is_cpu() &&
        lowered.device.is_cpu() && !constant->toDevice().is_meta())
      lowered.device = constant->toDevice();
  });
}

/// A bool is no Scalar by its type: as an int, and again as a truth, it is.
void keep_truths(jit::Node *node) {
  const std::string_view name = node->kind().toQualString();
  if (!is_number_op(name) && !is_check_or_save(name) && name != kTextOp)
    return;
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    jit::Value *truth = node->input(i);
    const c10::FunctionSchema *from = truth->node()->maybeSchema();
    if (from && from->returns().size() == 1 && from->returns()[0].type() == c10::BoolType::get())
      truth->setType(c10::BoolType::get()); // which a check has recorded as a number
    if (truth->type() != c10::BoolType::get())
      continue;
    jit::Graph &graph = *node->owningGraph();
    const jit::WithInsertPoint here(node);
    jit::Value *integer = insert(graph, c10::aten::Int, truth, c10::IntType::get());
    node->replaceInput(i, insert(graph, kTruth, integer, c10::NumberType::get()));
  }
}

/// A tensor that nothing reads is no part of the file.
void drop_unused_constant(jit::Node *node) {
  if (node->kind() == c10::prim::Constant && node->outputs().size() == 1 && !node->hasUses())
    node->destroy();
}

void drop_places(jit::Graph &graph) {
  const jit::SourceRange none = place_range({});
  each_node(graph.block(), [&](jit::Node *node) { node->setSourceRange(none); });
}

} // namespace

at::Tensor constant_tensor(const jit::Node &node) {
  if (node.kind() != c10::prim::Constant || node.outputs().size() != 1)
    return {};
  const auto constant = jit::toIValue(node.output());
  return constant && constant->isTensor() ? constant->toTensor() : at::Tensor();
}

void raise_by_torchscript(jit::Node *node) {
  jit::Graph &graph = *node->owningGraph();
  const jit::WithInsertPoint here(node);
  std::string type = jit::toIValue(node->input(0))->toStringRef(); // builtins:ValueError
  if (const auto at = type.rfind(':'); at != std::string::npos)
    type[at] = '.';
  jit::Value *of = graph.insertConstant(type);
  insert_op(graph, "prim::RaiseException", {node->input(1), of}, 0)
      ->setSourceRange(node->sourceRange());
  node->destroy();
}

bool is_exception(std::string_view name) {
  constexpr std::string_view builtins = "builtins:";
  if (!name.starts_with(builtins))
    return false;
  name.remove_prefix(builtins.size());
  return name.find('.') == std::string_view::npos &&
         (name.ends_with("Error") || name.ends_with("Exception") || name == "StopIteration");
}

Lowered lower(const Program &program, bool autocast, bool places, const std::string &what) {
  Lowered lowered{program.copy_graph(), {}, {}, false, at::kCPU};
  jit::Graph &graph = *lowered.graph;
  const std::size_t inputs = graph.inputs().size();
  check(graph, autocast, what);
  each_node(graph.block(), lower_node);
  each_node(graph.block(), type_numbers);
  each_node(graph.block(), keep_truths);
  lift_constants(lowered, inputs);
  each_node(graph.block(), drop_unused_constant);
  describe(lowered);
  if (!places)
    drop_places(graph);
  return lowered;
}

} // namespace tracehost::archive
