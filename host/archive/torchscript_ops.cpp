#include "archive/torchscript.h"

#include "archive/array_source.h"
#include "archive/error.h"
#include "archive/lower.h"
#include "program/nodes.h"
#include "program/places.h"

#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

// ---- ops of tracehost ---------------------------------------------------------------------------

/// Finds `torch.x` and `prim.x`.
struct OwnNames final : jit::NativeResolver {
  std::shared_ptr<jit::SugaredValue> resolveValue(const std::string &name, jit::GraphFunction &m,
                                                  const jit::SourceRange &place) override {
    if (name == "prim")
      return std::make_shared<jit::BuiltinModule>("prim");
    return jit::NativeResolver::resolveValue(name, m, place);
  }
};

/// Null: there is none of that name.
jit::Function *array_function(const std::string &name) {
  static const auto unit = [] {
    auto made = std::make_shared<jit::CompilationUnit>();
    made->define(std::nullopt, kArraySource, std::make_shared<OwnNames>(), nullptr);
    return made;
  }();
  return unit->find_function(c10::QualifiedName(name));
}

void set_range(jit::Node *node, const jit::SourceRange &range) {
  node->setSourceRange(range);
  for (jit::Block *inner : node->blocks())
    each_node(inner, [&](jit::Node *n) { n->setSourceRange(range); });
}

/// Puts the function's nodes in place of `node`.
void inline_function(jit::Node *node, jit::Function &function) {
  jit::Graph &graph = *node->owningGraph();
  jit::Node *before = node->prev();
  const jit::WithInsertPoint here(node);
  const auto made =
      jit::insertGraph(graph, *jit::toGraphFunction(function).graph(), node->inputs());
  for (std::size_t i = 0; i < node->outputs().size(); ++i)
    node->output(i)->replaceAllUsesWith(made[i]);
  for (jit::Node *n = before->next(); n != node; n = n->next())
    set_range(n, node->sourceRange());
  node->destroy();
}

/// At the insert point.
void insert_keep(jit::Graph &graph, jit::Value *value) {
  jit::Value *rank =
      insert_op(graph, "aten::dim", {value}, 1)->output()->setType(c10::IntType::get());
  jit::Value *never = insert_op(graph, "aten::lt", {rank, graph.insertConstant(0)}, 1)
                          ->output()
                          ->setType(c10::BoolType::get());
  jit::Node *branch = insert_op(graph, "prim::If", {never}, 0);
  jit::Block *then = branch->addBlock();
  branch->addBlock();
  const jit::WithInsertPoint inside(then);
  insert_op(graph, "prim::RaiseException",
            {graph.insertConstant(std::string()),
             graph.insertConstant(std::string("builtins.RuntimeError"))},
            0);
}

/// A side that raises gives no value, for which TorchScript's text has no word.
void replace_uninitialized(jit::Node *node) {
  jit::Graph &graph = *node->owningGraph();
  const jit::WithInsertPoint here(node);
  jit::Value *empty =
      graph.insert(c10::aten::empty, {graph.insertConstant(std::vector<std::int64_t>{0})});
  empty->node()->setSourceRange(node->sourceRange());
  node->output()->replaceAllUsesWith(empty);
  node->destroy();
}

void lower_node(jit::Node *node) {
  if (node->kind() == c10::prim::Uninitialized &&
      node->output()->type()->isSubtypeOf(*c10::TensorType::get()))
    return replace_uninitialized(node);
  const std::string name = node->kind().toQualString();
  constexpr std::string_view ours = "tracehost::";
  if (!name.starts_with(ours))
    return;
  if (jit::Function *function = array_function(name.substr(ours.size())))
    return inline_function(node, *function);
  if (name == "tracehost::raise_error")
    return raise_by_torchscript(node);
  jit::Graph &graph = *node->owningGraph();
  const jit::WithInsertPoint here(node); // after what has one of its own, and destroys the node
  if (name == "tracehost::keep") {
    insert_keep(graph, node->input());
    return node->destroy();
  }
  if (name == "tracehost::cudnn_enabled") { // a constant there, as torch.jit.trace has it
    node->output()->replaceAllUsesWith(graph.insertConstant(true));
    return node->destroy();
  }
  if (name == "tracehost::number") { // item() of a bool tensor is a number that is a bool
    const auto truth = jit::toIValue(node->input());
    jit::Value *tensor = graph.insertConstant(at::scalar_tensor(truth->toBool(), at::kBool));
    jit::Value *number =
        insert_op(graph, "aten::item", {tensor}, 1)->output()->setType(c10::NumberType::get());
    node->output()->replaceAllUsesWith(number);
    return node->destroy();
  }
}

// ---- numbers ------------------------------------------------------------------------------------

bool is_number(const jit::Value *value) {
  const at::Tensor t = constant_tensor(*value->node());
  return t.defined() && t.unsafeGetTensorImpl()->is_wrapped_number();
}

/// Puts a number in place of a 0-dim tensor that stands for one. Whether there is such an overload.
bool take_number(jit::Node *node, std::size_t input) {
  jit::Graph &graph = *node->owningGraph();
  jit::Value *before = node->input(input);
  const jit::WithInsertPoint here(node);
  jit::Value *number = graph.insertConstant(constant_tensor(*before->node()).item());
  node->replaceInput(input, number);
  if (node->maybeOperator())
    return true;
  node->replaceInput(input, before);
  number->node()->destroy();
  return false;
}

constexpr std::string_view kNumber =
    "takes a Python number in place of a tensor, and TorchScript has a tensor of another dtype";

void lower_numbers(jit::Node *node) {
  if (node->kind() == c10::prim::Constant)
    return;
  for (const jit::Block *inner : node->blocks())
    for (const jit::Value *value : inner->outputs())
      if (is_number(value))
        throw Error(fmt::format("a branch or loop {}", kNumber));
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    if (!is_number(node->input(i)) || (node->kind().is_aten() && take_number(node, i)))
      continue;
    const std::string_view name = node->kind().toQualString();
    const bool commutes = name == "aten::mul" || name == "aten::add" || name == "aten::multiply";
    if (i == 0 && commutes && node->inputs().size() == 2 && !is_number(node->input(1))) {
      jit::Value *number = node->input(0);
      node->replaceInput(0, node->input(1));
      node->replaceInput(1, number);
      if (take_number(node, 1))
        continue;
    }
    throw Error(fmt::format("{} {}", name, kNumber));
  }
}

/// Plain PyTorch has none of these: one would keep it from the whole file.
void reject_own(const jit::Node *node) {
  const std::string_view name = node->kind().toQualString();
  if (name.starts_with("tracehost::"))
    throw Error(
        fmt::format("{} is an operator of tracehost, which plain PyTorch does not have", name));
}

/// -0.0 is 0.0 where a sum of two parts is read again, and what is no number has no text.
bool has_text(double part) { return std::isfinite(part) && !(part == 0 && std::signbit(part)); }

void reject_constant(const jit::Node *node) {
  if (node->kind() != c10::prim::Constant)
    return;
  const auto value = jit::toIValue(node->output());
  if (value && value->isGenerator())
    throw Error("TorchScript cannot keep a torch.Generator: each call would make a new one");
  if (value && value->isComplexDouble() &&
      !(has_text(value->toComplexDouble().real()) && has_text(value->toComplexDouble().imag())))
    throw Error("TorchScript cannot write a complex number that has an infinite, NaN or -0.0 part");
}

/// The line alone, in the form that torch's own traces have: `net.py(12): `
void set_places(jit::Graph &graph) {
  const auto none = std::make_shared<jit::Source>(std::string());
  each_node(graph.block(), [&](jit::Node *node) {
    std::string place = place_of(*node);
    const auto colon = place.rfind(':');
    if (colon == std::string::npos) {
      node->setSourceRange(jit::SourceRange(none, 0, 0));
      return;
    }
    place = place.substr(0, colon) + "(" + place.substr(colon + 1) + "): ";
    const std::size_t size = place.size();
    node->setSourceRange(
        jit::SourceRange(std::make_shared<jit::Source>(std::move(place)), 0, size));
  });
}

} // namespace

void lower_to_torchscript(jit::Graph &graph) {
  each_node(graph.block(), lower_node);
  each_node(graph.block(), lower_numbers);
  each_node(graph.block(), reject_own);
  each_node(graph.block(), reject_constant);
  set_places(graph);
}

} // namespace tracehost::archive
