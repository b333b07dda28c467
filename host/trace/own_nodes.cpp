#include "trace/trace.h"

#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

/// Ops of which libtorch's tracer makes no node: those that return nothing (`_fused_adam_`,
/// `_foreach_add_`, custom ops that only write), and those that take a list of numbers. Others are
/// functional collectives, whose schemas have arguments of any type, and `convolution` without
/// data, of which the tracer records a part that is never reached there. And those that it records
/// by the name of another op, or by one that TorchScript lacks: `fill`, `zero`, `view` of a dtype.

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

/// Null: a graph can't hold such a thing.
jit::Value *value_of(const c10::IValue &argument, const c10::Type &type, jit::Graph &graph) {
  if (argument.isTensor() && argument.toTensor().defined())
    return tracer::getValueTrace(argument);
  if (argument.isTensor())
    return graph.insertConstant(c10::IValue());
  const auto list = type.cast<c10::ListType>();
  const c10::TypePtr element = list ? list->getElementType() : c10::TensorType::get();
  const bool of_tensors = argument.isTensorList() || argument.isOptionalTensorList();
  if (!of_tensors && !(argument.isList() && element->kind() == c10::TypeKind::NumberType))
    return jit::tryInsertConstant(graph, argument).value_or(nullptr);
  std::vector<jit::Value *> values;
  for (const c10::IValue &item : argument.toListRef())
    values.push_back(value_of(item, *element, graph));
  return graph.insertNode(graph.createList(element, values))->output();
}

/// TorchScript has no `view` of a dtype: it takes that name for sizes alone.
std::string recorded_name(const c10::FunctionSchema &schema) {
  return is_view_of_dtype(schema) ? "tracehost::view_dtype" : schema.name();
}

} // namespace

bool is_view_of_dtype(const c10::FunctionSchema &schema) {
  return schema.name() == "aten::view" && schema.overload_name() == "dtype";
}

void Trace::record(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &schema = op.schema();
  const auto &arguments = schema.arguments();
  const auto values = arguments_of(op, stack);
  jit::Graph &graph = *tracer::getTracingState()->graph;
  jit::Node *node = graph.create(c10::Symbol::fromQualString(recorded_name(schema)), 0);
  tracer::recordSourceLocation(node);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue &argument = values[i];
    const std::string &name = arguments[i].name();
    if (argument.isInt()) { // it may come from a size or number that is traced
      tracer::addInputs(node, name.c_str(), argument.toInt());
    } else if (argument.isDouble()) {
      tracer::addInputs(node, name.c_str(), at::Scalar(argument.toDouble()));
    } else if (argument.isIntList()) {
      tracer::addInputs(node, name.c_str(), c10::IntArrayRef(argument.toIntVector()));
    } else if (jit::Value *value = value_of(argument, *arguments[i].type(), graph)) {
      node->addInput(value);
    } else {
      reject(Rejection::trace,
             fmt::format("{} at {} is not recorded in a graph: of its argument '{}' there is no "
                         "constant. Do it outside of the function.",
                         schema.name(), text(here()), name));
    }
  }
  own_node_ = graph.insertNode(node);
}

void Trace::recorded(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto results = results_of(op, stack);
  for (std::size_t i = 0; i < results.size(); ++i)
    tracer::setValueTrace(results[i],
                          own_node_->addOutput()->setType(op.schema().returns()[i].type()));
}

/// What torch returns for a collective's result waits for it where it is first used. A graph waits
/// at once: its ops take plain tensors.
std::optional<c10::OperatorHandle> Trace::instead(const c10::OperatorHandle &op) {
  if (!traits(op).wraps)
    return std::nullopt;
  return c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "");
}

} // namespace tracehost::trace
