#include "program/callback.h"

#include "program/nodes.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tracehost {

namespace jit = torch::jit;

namespace {

const auto registered_class = torch::class_<Callback>("tracehost", "Callback");

// An operator of the interpreter's alone: no dispatch, so that what the code does with tensors has
// gradients of its own.
const jit::RegisterOperators registered_operator({jit::Operator(
    "tracehost::py_function(__torch__.torch.classes.tracehost.Callback function, Tensor[] inputs) "
    "-> Tensor[]",
    [](jit::Stack &stack) {
      auto inputs = jit::pop(stack).toTensorVector();
      const auto callback = jit::pop(stack).toCustomClass<Callback>();
      jit::push(stack, callback->call(std::move(inputs)));
    },
    c10::AliasAnalysisKind::CONSERVATIVE)});

constexpr std::string_view kCall = "tracehost::py_function";

/// `name` as far as a Value may be called so.
std::string identifier(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '_'; }, '_');
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "_" + name : name;
}

} // namespace

bool Callback::Result::is_exact() const {
  return sizes && std::all_of(sizes->begin(), sizes->end(), [](const auto &s) { return !!s; });
}

jit::Node *insert_call(jit::Graph &graph, const c10::intrusive_ptr<Callback> &callback,
                       c10::ArrayRef<jit::Value *> inputs) {
  jit::Value *function = graph.insertConstant(callback);
  function->setDebugName(identifier(callback->name));
  jit::Node *list = graph.insertNode(graph.createList(c10::TensorType::get(), inputs));
  jit::Value *results =
      insert_op(graph, std::string(kCall), {function, list->output()}, 1)->output();
  results->setType(c10::ListType::ofTensors());
  jit::Node *unpack = graph.insertNode(graph.createListUnpack(results, callback->results.size()));
  for (std::size_t i = 0; i < callback->results.size(); ++i)
    unpack->output(i)->setType(c10::TensorType::get()->withScalarType(callback->results[i].dtype));
  return unpack;
}

bool is_call(const jit::Node &node) { return node.kind().toQualString() == kCall; }

c10::intrusive_ptr<Callback> callback_of(const jit::Node &call) {
  return jit::toIValue(call.input(0))->toCustomClass<Callback>();
}

} // namespace tracehost
