#include "archive/torchscript.h"

#include "archive/error.h"
#include "archive/lower.h"
#include "program/nodes.h"

#include <caffe2/serialize/versions.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <torch/csrc/jit/serialization/python_print.h>

#include <algorithm>
#include <utility>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

constexpr const char *kClass = "__torch__.tracehost.Archive";

void replace_constants(jit::Graph &graph, jit::Value *self,
                       const std::function<std::string(const at::Tensor &)> &name_of) {
  each_node(graph.block(), [&](jit::Node *node) {
    const at::Tensor t = constant_tensor(*node);
    const std::string name = t.defined() ? name_of(t) : std::string();
    if (name.empty())
      return;
    const jit::WithInsertPoint here(node);
    node->output()->replaceAllUsesWith(graph.insertGetAttr(self, name));
    node->destroy();
  });
}

void pack_outputs(jit::Graph &graph) {
  if (graph.outputs().size() == 1)
    return;
  const jit::WithInsertPoint end(graph.block()->return_node());
  jit::Value *packed = graph.outputs().empty()
                           ? graph.insertConstant(c10::IValue())
                           : graph.insertNode(graph.createTuple(graph.outputs()))->output();
  while (!graph.outputs().empty())
    graph.eraseOutput(graph.outputs().size() - 1);
  graph.registerOutput(packed);
}

/// A copy with `self` as first input, the tensors as its attributes, and one output.
std::shared_ptr<jit::Graph> bound(jit::Graph &from, const c10::ClassTypePtr &type,
                                  const std::vector<std::string> &arguments,
                                  const std::vector<std::string> &tensors,
                                  const std::function<std::string(const at::Tensor &)> &name_of) {
  auto graph = from.copy();
  jit::Value *self = graph->insertInput(0, "self")->setType(type);
  {
    const jit::WithInsertPoint begin(*graph->block()->nodes().begin());
    for (const std::string &name : tensors) {
      jit::Value *input = graph->inputs()[1 + arguments.size()];
      const auto outputs = graph->outputs();
      if (input->hasUses() || std::find(outputs.begin(), outputs.end(), input) != outputs.end())
        input->replaceAllUsesWith(graph->insertGetAttr(self, name));
      graph->eraseInput(1 + arguments.size());
    }
  }
  replace_constants(*graph, self, name_of);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    graph->inputs()[1 + i]->setDebugName(arguments[i]);
  lower_to_torchscript(*graph);
  pack_outputs(*graph);
  return graph;
}

/// Throws where the text of the method does not compile.
void compile(const c10::ClassTypePtr &type) {
  std::vector<c10::IValue> constants;
  jit::PrintDepsTable deps;
  jit::PythonPrint printed(constants, deps, nullptr, true);
  printed.printNamedType(type);
  const auto source = std::make_shared<jit::Source>(printed.str());
  const auto again = std::make_shared<jit::CompilationUnit>();
  const jit::SourceImporter importer(
      again, &constants, [&](const std::string &) { return source; },
      caffe2::serialize::kProducedFileFormatVersion);
  const auto read = importer.loadType(c10::QualifiedName(kClass))->expect<c10::ClassType>();
  for (jit::Function *method : read->methods())
    jit::toGraphFunction(*method).graph(); // compiles it, while the importer is there
}

/// Throws where it can't be printed and read again, alone in a class.
void try_method(const std::string &name, const std::shared_ptr<jit::Graph> &graph,
                const c10::ClassTypePtr &module) {
  const auto unit = std::make_shared<jit::CompilationUnit>();
  const auto type = c10::ClassType::create(c10::QualifiedName(kClass), unit, true);
  for (std::size_t i = 0; i < module->numAttributes(); ++i)
    type->addAttribute(module->getAttributeName(i), module->getAttribute(i));
  unit->register_type(type);
  graph->inputs()[0]->setType(type);
  type->addMethod(unit->create_function(c10::QualifiedName(*type->name(), name), graph));
  compile(type);
}

} // namespace

TorchScriptCopy::TorchScriptCopy()
    : unit_(std::make_shared<jit::CompilationUnit>()), module_(kClass, unit_) {
  module_.register_attribute("training", c10::BoolType::get(), false);
}

void TorchScriptCopy::add_tensor(const std::string &name, const at::Tensor &tensor, Role role) {
  if (role == Role::parameter)
    module_.register_parameter(name, tensor, false);
  else if (role == Role::buffer)
    module_.register_buffer(name, tensor);
  else
    module_.register_attribute(name, c10::TensorType::get(), tensor);
}

std::string
TorchScriptCopy::add_method(const std::string &name, jit::Graph &graph,
                            const std::vector<std::string> &arguments,
                            const std::vector<std::string> &tensors,
                            const std::function<std::string(const at::Tensor &)> &name_of) {
  std::shared_ptr<jit::Graph> made;
  try {
    made = bound(graph, module_.type(), arguments, tensors, name_of);
    try_method(name, made, module_.type());
  } catch (const Error &e) {
    return e.what();
  } catch (const c10::Error &e) {
    return first_line(e.what_without_backtrace());
  } catch (const std::exception &e) { // of the frontend, too
    return first_line(e.what());
  }
  made->inputs()[0]->setType(module_.type());
  const c10::QualifiedName qualified(*module_.type()->name(), name);
  module_.type()->addMethod(unit_->create_function(qualified, made));
  return {};
}

void TorchScriptCopy::add_forward(const std::string &method) {
  const auto found = module_.find_method(method);
  if (!found || module_.find_method("forward"))
    return;
  const auto callee = jit::toGraphFunction(found->function()).graph();
  auto graph = std::make_shared<jit::Graph>();
  for (const jit::Value *input : callee->inputs())
    graph->addInput(input->hasDebugName() ? input->debugName() : "")->setType(input->type());
  jit::Node *call = graph->insertNode(graph->create(c10::prim::CallMethod, graph->inputs(), 1));
  call->s_(c10::attr::name, method);
  call->output()->setType(callee->outputs()[0]->type());
  graph->registerOutput(call->output());
  const c10::QualifiedName qualified(*module_.type()->name(), "forward");
  module_.type()->addMethod(unit_->create_function(qualified, graph));
}

} // namespace tracehost::archive
