#include "archive/opened.h"

#include "archive/archive.h"
#include "archive/graph_check.h"
#include "archive/names.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

std::string manifest_of(const Container &container) {
  const std::string name = fmt::format("extra/{}", kManifest);
  if (!container.has(name))
    wrong_file("it has no manifest");
  return container.text(name);
}

/// The libraries of the archive's operators that this process has not loaded.
std::string missing(const Manifest &manifest) {
  std::unordered_set<std::string> known;
  for (const auto &name : c10::Dispatcher::singleton().getAllOpNames())
    known.insert(name.name.substr(0, name.name.find("::")));
  std::string names;
  for (const std::string &library : manifest.libraries)
    if (!known.contains(library))
      names += (names.empty() ? "'" : "', '") + library;
  return names.empty() ? names : names + "'";
}

/// Gives its inputs the names of arguments and tensors.
void name_inputs(jit::Graph &graph, const Record &record) {
  Names names;
  for (std::uint32_t i = 0; i < graph.inputs().size(); ++i) {
    const std::size_t slots = record.signature.slots.size();
    graph.inputs()[i]->setDebugName(
        names.take(i < slots ? path(record.signature, record.signature.first_node(i))
                             : record.state.attributes[i - slots]));
  }
}

DeviceMove to_cpu(const Manifest &manifest) { return {manifest.device, at::kCPU}; }

} // namespace

Opened::Opened(std::shared_ptr<const OpenFile> file)
    : container_(std::move(file)), text_(manifest_of(container_)), manifest_(from_json(text_)) {}

GraphReader Opened::graphs(DeviceMove move) const {
  if (const std::string names = missing(manifest_); !names.empty())
    throw Error(
        fmt::format("it has operators of {}, which this process has not registered. Import the "
                    "package, or load the library, before the archive.",
                    names));
  return {container_.bytes(kGraphs),
          [this](const std::string &name) { return container_.data(name); }, move};
}

/// One of a Record: its inputs are the slots and the captures, its outputs the result's tensors.
std::shared_ptr<jit::Graph> checked_graph(const GraphReader &graphs, const Record &record,
                                          const std::vector<std::string> &libraries) {
  auto graph =
      graphs.graph(record.graph, record.signature.slots.size() + record.state.attributes.size());
  const std::string &method = record.state.method;
  for (const jit::Value *output : graph->outputs())
    if (!output->type()->isSubtypeOf(*c10::TensorType::get()))
      wrong_file(fmt::format("graph '{}' gives what is no tensor", method));
  if (graph->outputs().size() != record.outputs.tensors)
    wrong_file(fmt::format("graph '{}' gives other tensors than its result has", method));
  check_operators(graph->block(), libraries);
  return graph;
}

void check_file(const std::shared_ptr<const OpenFile> &file) {
  const c10::InferenceMode off(false);
  const Opened opened(file);
  const Manifest &manifest = opened.manifest();
  const GraphReader graphs = opened.graphs(to_cpu(manifest));
  for (const Manifest::Function &function : manifest.functions)
    for (const Record &record : function.specializations) {
      checked_graph(graphs, record, manifest.libraries);
      for (const std::string &attribute : record.state.attributes)
        graphs.tensors().of(attribute);
    }
}

std::string manifest(const std::string &path) {
  return with_path(path, [&] { return Opened(OpenFile::read(path)).manifest_text(); });
}

std::string code(const std::string &path, std::size_t number) {
  return with_path(path, [&] {
    const c10::InferenceMode off(false);
    const Opened opened(OpenFile::read(path));
    const Manifest &manifest = opened.manifest();
    const GraphReader graphs = opened.graphs(to_cpu(manifest));
    for (const Manifest::Function &function : manifest.functions) {
      if (number < function.specializations.size()) {
        const Record &record = function.specializations[number];
        const auto graph = checked_graph(graphs, record, manifest.libraries);
        name_inputs(*graph, record);
        return graph->toString(false);
      }
      number -= function.specializations.size();
    }
    throw Error("it has no graph of that number");
  });
}

} // namespace tracehost::archive
