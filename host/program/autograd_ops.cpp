#include "program/autograd_ops.h"

#include "program/nodes.h"
#include "signature/grad_read.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <string_view>

namespace tracehost {

namespace jit = torch::jit;

namespace {

using Tensors = std::vector<at::Tensor>;

Tensors pop_optional_tensors(jit::Stack &stack) {
  Tensors result;
  const c10::IValue list = jit::pop(stack);
  for (const c10::IValue &item : list.toListRef())
    result.push_back(item.isNone() ? at::Tensor() : item.toTensor());
  return result;
}

void grad(jit::Stack &stack) {
  const auto defined = jit::pop(stack).toBoolList();
  const bool allow_unused = jit::pop(stack).toBool();
  const bool create_graph = jit::pop(stack).toBool();
  const bool retain_graph = jit::pop(stack).toBool();
  const Tensors grad_outputs = pop_optional_tensors(stack);
  const Tensors inputs = jit::pop(stack).toTensorVector();
  const Tensors outputs = jit::pop(stack).toTensorVector();
  Tensors grads = torch::autograd::grad(outputs, inputs, grad_outputs, retain_graph, create_graph,
                                        allow_unused);
  for (std::size_t i = 0; i < grads.size(); ++i)
    TORCH_CHECK(grads[i].defined() == defined.get(i), "autograd.grad gives ",
                grads[i].defined() ? "a gradient" : "no gradient", " for input ", i,
                ", unlike when the graph was traced: a backward or hook that is Python code has "
                "decided otherwise. Move autograd.grad out of the function.");
  jit::push(stack, std::move(grads));
}

void backward(jit::Stack &stack) {
  const Tensors inputs = jit::pop(stack).toTensorVector();
  const bool create_graph = jit::pop(stack).toBool();
  const bool retain_graph = jit::pop(stack).toBool();
  const Tensors grad_tensors = pop_optional_tensors(stack);
  const Tensors tensors = jit::pop(stack).toTensorVector();
  torch::autograd::backward(tensors, grad_tensors, retain_graph, create_graph, inputs);
}

void read_grad(jit::Stack &stack) {
  const bool requires_grad = jit::pop(stack).toBool();
  const at::Tensor t = jit::pop(stack).toTensor();
  const GradState state = grad_state(t);
  TORCH_CHECK(state != GradState::none,
              "the body reads a .grad which is None now, and was a tensor when "
              "the graph was traced");
  TORCH_CHECK(state == (requires_grad ? GradState::differentiable : GradState::tensor),
              "the body reads a .grad which is of another dtype, layout, shape or requires_grad "
              "than when the graph was traced");
  jit::push(stack, grad_of(t));
}

void expect_no_grad(jit::Stack &stack) {
  TORCH_CHECK(!grad_of(jit::pop(stack).toTensor()).defined(),
              "the body reads a .grad which is a tensor now, and was None when the graph was "
              "traced");
}

void set_grad(jit::Stack &stack) {
  const c10::IValue value = jit::pop(stack);
  const at::Tensor t = jit::pop(stack).toTensor();
  t.mutable_grad() = value.isNone() ? at::Tensor() : value.toTensor();
}

void retain_grad(jit::Stack &stack) { jit::pop(stack).toTensor().retain_grad(); }

// Operators of TorchScript's interpreter only: they are not dispatched, and autograd does not
// differentiate them.
const jit::RegisterOperators registered({
    jit::Operator("tracehost::grad(Tensor[] outputs, Tensor[] inputs, Tensor?[] grad_outputs, bool "
                  "retain_graph, bool create_graph, bool allow_unused, bool[] defined) -> Tensor[]",
                  &grad, c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("tracehost::backward(Tensor[] tensors, Tensor?[] grad_tensors, bool "
                  "retain_graph, bool create_graph, Tensor[] inputs) -> ()",
                  &backward, c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("tracehost::read_grad(Tensor t, bool requires_grad) -> Tensor", &read_grad,
                  c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("tracehost::expect_no_grad(Tensor t) -> ()", &expect_no_grad,
                  c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("tracehost::set_grad(Tensor t, Tensor? grad) -> ()", &set_grad,
                  c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("tracehost::retain_grad(Tensor t) -> ()", &retain_grad,
                  c10::AliasAnalysisKind::CONSERVATIVE),
});

jit::Value *list(jit::Graph &graph, const c10::TypePtr &type, c10::ArrayRef<jit::Value *> items) {
  return graph.insertNode(graph.createList(type, items))->output();
}

jit::Value *optional_list(jit::Graph &graph, c10::ArrayRef<jit::Value *> items) {
  std::vector<jit::Value *> values;
  for (jit::Value *item : items)
    values.push_back(item ? item : graph.insertConstant(c10::IValue()));
  return list(graph, c10::OptionalType::ofTensor(), values);
}

} // namespace

jit::Node *insert_engine_call(jit::Graph &graph, const EngineCall &call,
                              c10::ArrayRef<jit::Value *> roots, c10::ArrayRef<jit::Value *> grads,
                              c10::ArrayRef<jit::Value *> inputs,
                              const std::vector<bool> &defined) {
  const auto tensor = c10::TensorType::get();
  jit::Value *root_list = list(graph, tensor, roots);
  jit::Value *grad_list = optional_list(graph, grads);
  jit::Value *input_list = list(graph, tensor, inputs);
  jit::Value *retain = graph.insertConstant(call.retain_graph);
  jit::Value *create = graph.insertConstant(call.create_graph);
  if (call.accumulates)
    return insert_op(graph, "tracehost::backward",
                     {root_list, grad_list, retain, create, input_list}, 0);
  c10::List<bool> expected;
  for (const bool is_defined : defined)
    expected.push_back(is_defined);
  jit::Node *node =
      insert_op(graph, "tracehost::grad",
                {root_list, input_list, grad_list, retain, create,
                 graph.insertConstant(call.allow_unused), graph.insertConstant(expected)},
                1);
  node->output()->setType(c10::ListType::ofTensors());
  return graph.insertNode(graph.createListUnpack(node->output(), inputs.size()));
}

bool runs_engine(const jit::Node &node) {
  const std::string_view name = node.kind().toQualString();
  return name == "tracehost::grad" || name == "tracehost::backward";
}

bool is_autograd_op(const jit::Node &node) {
  const std::string_view name = node.kind().toQualString();
  return runs_engine(node) || name == "tracehost::read_grad" ||
         name == "tracehost::expect_no_grad" || name == "tracehost::set_grad" ||
         name == "tracehost::retain_grad";
}

} // namespace tracehost
