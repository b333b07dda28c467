#include "archive/lower.h"

#include "archive/array_source.h"
#include "archive/error.h"
#include "program/autograd_ops.h"
#include "program/callback.h"
#include "program/modes.h"
#include "program/numbers.h"
#include "program/places.h"
#include "program/undo.h"

#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <functional>
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

jit::Value *insert(jit::Graph &graph, const char *op, std::vector<jit::Value *> inputs,
                   const c10::TypePtr &type) {
  jit::Node *node =
      graph.insertNode(graph.create(c10::Symbol::fromQualString(op), inputs, type ? 1 : 0));
  if (!type)
    return nullptr;
  node->output()->setType(type);
  return node->output();
}

/// At the insert point.
void insert_keep(jit::Graph &graph, jit::Value *value) {
  jit::Value *rank = insert(graph, "aten::dim", {value}, c10::IntType::get());
  jit::Value *never =
      insert(graph, "aten::lt", {rank, graph.insertConstant(0)}, c10::BoolType::get());
  jit::Node *branch = graph.insertNode(graph.create(c10::prim::If, {never}, 0));
  jit::Block *then = branch->addBlock();
  branch->addBlock();
  const jit::WithInsertPoint inside(then);
  insert(graph, "prim::RaiseException",
         {graph.insertConstant(std::string()),
          graph.insertConstant(std::string("builtins.RuntimeError"))},
         nullptr);
}

/// `builtins:ValueError` as TorchScript has it, and back.
std::string with(std::string name, char from, char to) {
  if (const auto at = name.rfind(from); at != std::string::npos)
    name[at] = to;
  return name;
}

void rename(jit::Node *node, const std::string &op) {
  jit::Graph &graph = *node->owningGraph();
  const jit::WithInsertPoint here(node);
  jit::Node *made = graph.insertNode(
      graph.create(c10::Symbol::fromQualString(op), node->inputs().vec(), node->outputs().size()));
  made->setSourceRange(node->sourceRange());
  for (std::size_t i = 0; i < node->outputs().size(); ++i) {
    made->output(i)->setType(node->output(i)->type());
    node->output(i)->replaceAllUsesWith(made->output(i));
  }
  node->destroy();
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
  if (is_autocast(*node))
    return node->destroy();
  if (name == "tracehost::data")
    return rename(node, "prim::data");
  if (name == "tracehost::set_data" || name == "tracehost::requires_grad_")
    return rename(node, "aten::" + name.substr(ours.size()));
  jit::Graph &graph = *node->owningGraph();
  const jit::WithInsertPoint here(node); // after what has one of its own, and destroys the node
  if (name == "tracehost::keep") {
    insert_keep(graph, node->input());
    return node->destroy();
  }
  if (name == "tracehost::raise_error") {
    const std::string type = jit::toIValue(node->input(0))->toStringRef();
    jit::Value *of = graph.insertConstant(with(type, ':', '.'));
    jit::Node *made =
        graph.insertNode(graph.create(c10::prim::RaiseException, {node->input(1), of}, 0));
    made->setSourceRange(node->sourceRange());
    return node->destroy();
  }
  if (name == "tracehost::number") { // item() of a bool tensor is a number that is a bool
    const auto truth = jit::toIValue(node->input());
    jit::Value *tensor = graph.insertConstant(at::scalar_tensor(truth->toBool(), at::kBool));
    jit::Value *number = insert(graph, "aten::item", {tensor}, c10::NumberType::get());
    node->output()->replaceAllUsesWith(number);
    return node->destroy();
  }
}

// ---- numbers ------------------------------------------------------------------------------------

at::Tensor constant_tensor(const jit::Value *value) {
  if (value->node()->kind() != c10::prim::Constant)
    return {};
  const auto constant = jit::toIValue(value);
  return constant && constant->isTensor() ? constant->toTensor() : at::Tensor();
}

bool is_number(const jit::Value *value) {
  const at::Tensor t = constant_tensor(value);
  return t.defined() && t.unsafeGetTensorImpl()->is_wrapped_number();
}

/// Puts a number in place of a 0-dim tensor that stands for one. Whether there is such an overload.
bool take_number(jit::Node *node, std::size_t input) {
  jit::Graph &graph = *node->owningGraph();
  jit::Value *before = node->input(input);
  const jit::WithInsertPoint here(node);
  jit::Value *number = graph.insertConstant(constant_tensor(before).item());
  node->replaceInput(input, number);
  if (node->maybeOperator())
    return true;
  node->replaceInput(input, before);
  number->node()->destroy();
  return false;
}

constexpr std::string_view kNumber =
    "takes a Python number in place of a tensor, which TorchScript would store as a tensor of "
    "another dtype. Give it a tensor: torch.tensor(2.0, dtype=x.dtype)";

void lower_numbers(jit::Node *node, const std::string &what) {
  if (node->kind() == c10::prim::Constant)
    return;
  for (const jit::Block *inner : node->blocks())
    for (const jit::Value *value : inner->outputs())
      if (is_number(value))
        reject(what, *node, "a branch or loop", kNumber);
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
    reject(what, *node, name, kNumber);
  }
}

/// Constants that require grad, or hold no data of a kind that is stored.
void lift_constants(Lowered &lowered, std::size_t inputs) {
  each_node(lowered.graph->block(), [&](jit::Node *node) {
    if (node->kind() != c10::prim::Constant || node->outputs().size() != 1)
      return;
    const at::Tensor t = constant_tensor(node->output());
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

/// The line alone, in the form that torch's own traces have: `net.py(12): `
void set_places(jit::Graph &graph, bool places) {
  const auto none = std::make_shared<jit::Source>(std::string());
  each_node(graph.block(), [&](jit::Node *node) {
    std::string place = places ? place_of(*node) : std::string();
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

/// What is computed and dropped has an effect of its own: it is no output, but stays.
void drop_outputs(jit::Graph &graph, std::size_t outputs) {
  const jit::WithInsertPoint end(graph.block()->return_node());
  while (graph.outputs().size() > outputs) {
    jit::Value *dropped = graph.outputs()[graph.outputs().size() - 1];
    graph.eraseOutput(graph.outputs().size() - 1);
    if (dropped->type()->isSubtypeOf(*c10::TensorType::get()))
      insert_keep(graph, dropped);
  }
}

/// A load takes types from schemas, where numbers are Scalars: an int and a float say so.
void type_numbers(jit::Node *node) {
  const bool makes_number =
      is_number_op(node->kind().toQualString()) || node->kind() == c10::aten::item;
  if (!makes_number || node->outputs().size() != 1)
    return;
  jit::Value *output = node->output();
  const bool integer = output->type() == c10::IntType::get();
  if (!integer && output->type() != c10::FloatType::get())
    return;
  output->setType(c10::NumberType::get());
  jit::Node *typed =
      node->owningGraph()->create(integer ? c10::aten::Int : c10::aten::Float, {output});
  typed->output()->setType(integer ? c10::TypePtr(c10::IntType::get()) : c10::FloatType::get());
  typed->insertAfter(node);
  typed->setSourceRange(node->sourceRange());
  output->replaceAllUsesAfterNodeWith(typed, typed->output());
}

/// A load gives an op that takes a number an int in place of a bool.
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
    jit::Value *integer = insert(graph, "aten::Int", {truth}, c10::IntType::get());
    node->replaceInput(i, insert(graph, "tracehost::py_truth", {integer}, c10::NumberType::get()));
  }
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

} // namespace

Lowered lower(const Program &program, std::size_t outputs, bool autocast, bool places,
              const std::string &what) {
  Lowered lowered{program.copy_graph(), {}, {}, false, at::kCPU};
  jit::Graph &graph = *lowered.graph;
  const std::size_t inputs = graph.inputs().size();
  check(graph, autocast, what);
  drop_outputs(graph, outputs);
  each_node(graph.block(), lower_node);
  each_node(graph.block(), [&](jit::Node *node) { lower_numbers(node, what); });
  each_node(graph.block(), type_numbers);
  each_node(graph.block(), keep_truths);
  lift_constants(lowered, inputs);
  describe(lowered);
  set_places(graph, places);
  return lowered;
}

/// Nothing else of Python is called because an archive names it.
static bool is_exception(std::string_view name) {
  constexpr std::string_view builtins = "builtins.";
  if (!name.starts_with(builtins))
    return false;
  name.remove_prefix(builtins.size());
  return name.find('.') == std::string_view::npos &&
         (name.ends_with("Error") || name.ends_with("Exception") || name == "StopIteration");
}

void raise(jit::Graph &graph, const std::function<std::string(const jit::SourceRange &)> &place) {
  each_node(graph.block(), [&](jit::Node *node) {
    node->setSourceRange(place_range(place(node->sourceRange())));
    if (node->kind() != c10::prim::RaiseException || node->inputs().size() != 2)
      return;
    const auto type = jit::toIValue(node->input(1));
    if (!type || !type->isString() || !is_exception(type->toStringRef()))
      return;
    const jit::WithInsertPoint here(node);
    jit::Value *of = graph.insertConstant(with(type->toStringRef(), '.', ':'));
    jit::Node *made = graph.insertNode(
        graph.create(c10::Symbol::fromQualString("tracehost::raise_error"),
                     {of, node->input(0), graph.insertConstant(std::string())}, 0));
    made->setSourceRange(node->sourceRange());
    node->destroy();
  });
}

} // namespace tracehost::archive
