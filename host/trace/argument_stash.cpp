#include "trace/argument_stash.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <string>
#include <unordered_set>

namespace tracehost::trace {
namespace {

bool is_number_type(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::SymFloatType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::SymBoolType:
    return true;
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::ListType:
    return is_number_type(*type.containedType(0));
  default:
    return false;
  }
}

/// The names of all number arguments of all ops: the stash can't be listed, only asked by name.
const std::unordered_set<std::string> &argument_names() {
  static const std::unordered_set<std::string> names = [] {
    // Names that Python's indexing uses.
    std::unordered_set<std::string> found = {"index", "start", "end", "step", "length", "shape"};
    auto &dispatcher = c10::Dispatcher::singleton();
    for (const auto &op : dispatcher.getAllOpNames())
      if (const auto handle = dispatcher.findSchema(op))
        for (const auto &argument : handle->schema().arguments())
          if (is_number_type(*argument.type()))
            found.insert(argument.name());
    return found;
  }();
  return names;
}

} // namespace

void clear_argument_stash() {
  namespace tracer = torch::jit::tracer;
  // torch exports no way to drop an entry but to use it: as inputs of a node that is never
  // inserted.
  auto &graph = *tracer::getTracingState()->graph;
  // For a stashed list, torch takes the elements that were no tensors from the array given here, so
  // the array may not be short. Its size counts only where nothing is stashed.
  static const std::int64_t zeros[1 << 16] = {};
  const c10::IntArrayRef nothing(zeros, std::size_t{0});
  torch::jit::Node *sink = graph.create(c10::prim::ListConstruct, 0);
  for (const std::string &name : argument_names()) {
    tracer::addInputs(sink, name.c_str(), std::int64_t{0});
    tracer::addInputs(sink, name.c_str(), nothing);
  }
  sink->destroy();
}

} // namespace tracehost::trace
