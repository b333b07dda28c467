#pragma once

#include "archive/archive.h"
#include "runtime/loaded.h"
#include "signature/native_atoms.h"
#include "support/calls.h"
#include "trace/tracer.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Functions as an archive has them, made here: graphs of C++ ops, atoms without Python.

namespace tracehost::test {

inline Value word(std::string content) {
  return atom(std::make_shared<Literal>(Literal::Type::string, std::move(content)));
}
inline Value contained(ContainerClass::Form form, std::vector<Value> items,
                       std::vector<std::string> fields = {}) {
  auto type = fields.empty()
                  ? std::make_shared<ContainerClass>(form)
                  : std::make_shared<ContainerClass>(form, "net:Pair", std::move(fields));
  Value value = leaf(type->kind());
  value.atom = std::move(type);
  value.children = std::move(items);
  return value;
}
inline Value dict_of(std::vector<std::pair<std::string, Value>> items) {
  std::vector<Value> children;
  for (auto &[key, item] : items) {
    children.push_back(word(key));
    children.push_back(std::move(item));
  }
  return contained(ContainerClass::Form::dict, std::move(children));
}

using Tensors = std::vector<at::Tensor>;
using Ops = std::function<Tensors(const Tensors &)>;

/// The graph of `ops` for calls of `signature`; tensors that they reach otherwise are captures. The
/// result is `outputs`, or else the one tensor.
inline SpecializationRef graph_for(Signature signature, const Tensors &inputs, const Ops &ops,
                                   std::optional<Value> outputs = std::nullopt) {
  FakeFrontend frontend;
  std::size_t count = 0;
  const auto traced = trace::trace(inputs, {}, frontend, [&] {
    auto results = ops(inputs);
    count = results.size();
    return results;
  });
  auto made = std::make_shared<Specialization>();
  auto state = std::make_shared<archive::State>();
  for (const auto &capture : traced.captures)
    state->captures.push_back(capture.tensor);
  made->front_end = state;
  Signature result;
  append(result, outputs ? *outputs : tensor(0, {}));
  made->outputs = {std::move(result.nodes), std::move(result.atoms), count};
  signature.context = Context::now();
  made->signature = std::move(signature);
  made->program = std::make_unique<Program>(traced.graph, "f", count);
  return made;
}

inline archive::Value default_of(const Value &value) {
  Signature made;
  append(made, value);
  return {std::move(made.nodes), std::move(made.atoms)};
}

/// A handle of a function that has these graphs.
inline Function loaded(std::vector<SpecializationRef> graphs, FakeSink &sink,
                       std::vector<std::optional<archive::Value>> defaults = {}) {
  archive::Entry entry;
  entry.name = "f";
  entry.parameters = graphs.front()->signature.parameters;
  entry.defaults = std::move(defaults);
  entry.specializations = std::move(graphs);
  return Function(std::make_shared<runtime::Loaded>(entry, "/models/net.thz", sink));
}

} // namespace tracehost::test
