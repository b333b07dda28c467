#include "archive/import.h"

#include "archive/graph_check.h"
#include "archive/lower.h"
#include "archive/manifest.h"
#include "archive/source_check.h"
#include "archive/stored_tensors.h"

#include <caffe2/serialize/versions.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/serialization/import_source.h>

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

/// Of PyTorch's format, for operators that have changed since.
std::size_t version_of(const Container &container) {
  const std::string text =
      container.text(container.has(".data/version") ? ".data/version" : "version");
  std::size_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || std::string_view(end, text.data() + text.size()) != "\n" ||
      version < caffe2::serialize::kMinProducedFileFormatVersion)
    wrong_file("record 'version' has no number");
  if (version > caffe2::serialize::kMaxSupportedFileFormatVersion)
    throw Error(fmt::format(
        "it is of version {} of PyTorch's format; PyTorch {} reads versions up to "
        "{}. Load it with a newer PyTorch.",
        version, TRACEHOST_BUILT_TORCH, caffe2::serialize::kMaxSupportedFileFormatVersion));
  if (container.has("byteorder") && container.text("byteorder") != "little")
    throw Error("it was written on a machine of another byte order, and can't be read here");
  return version;
}

Pickle pickle_of(const Container &container, const std::string &name) {
  container.size(name); // it is not packed
  return {container.text(name), name};
}

/// Of constants.pkl, whether each is text.
std::vector<bool> texts_of(const Pickle &constants) {
  if (constants.root().kind != PickleKind::tuple)
    constants.wrong("has another form");
  std::vector<bool> texts;
  for (const std::uint32_t item : constants.root().items)
    texts.push_back(constants.at(item).kind == PickleKind::text);
  return texts;
}

/// The names and tensors of data.pkl, in turn.
const PickleItem &state_of(const Pickle &data) {
  const PickleItem &root = data.root();
  if (root.kind != PickleKind::object ||
      data.item(root, 0, PickleKind::global).text != "__torch__.tracehost Archive")
    data.wrong("has another form");
  return data.item(root, 1, PickleKind::dict);
}

bool is_training(const PickleItem &name, const PickleItem &value) {
  return name.text == "training" && value.kind == PickleKind::boolean;
}

/// The names of its tensors.
std::set<std::string> attributes_of(const Pickle &data) {
  std::set<std::string> names;
  const PickleItem &state = state_of(data);
  for (std::size_t i = 0; i < state.items.size(); i += 2) {
    const PickleItem &name = data.item(state, i, PickleKind::text);
    if (!is_training(name, data.at(state.items[i + 1])) && !names.insert(name.text).second)
      data.wrong("has two tensors of one name");
  }
  return names;
}

struct Parts {
  std::size_t version;
  Pickle data, constants;
  CheckedSource source;
  LineTable lines;
};

Parts parts_of(const Container &container, const std::set<std::string> &methods) {
  const std::size_t version = version_of(container);
  Pickle data = pickle_of(container, "data.pkl"), constants = pickle_of(container, "constants.pkl");
  const auto attributes = attributes_of(data);
  CheckedSource source = check_source(container.text(kSourceRecord), methods, texts_of(constants));
  if (source.attributes != attributes)
    wrong_file("its source has other tensors than its data");
  const std::string lines = std::string(kSourceRecord) + ".debug_pkl";
  return {version, std::move(data), std::move(constants), std::move(source),
          container.has(lines) ? LineTable(container.text(lines)) : LineTable()};
}

} // namespace

void Imported::read_tensors(const Container &container, const Pickle &data, const Pickle &constants,
                            DeviceMove move) {
  const PickleItem &state = state_of(data);
  StoredTensors stored(container, "data/", move);
  for (std::size_t i = 0; i < state.items.size(); i += 2) {
    const PickleItem &name = data.at(state.items[i]);
    const PickleItem &value = data.at(state.items[i + 1]);
    if (!is_training(name, value))
      tensors_.emplace(name.text, stored.make(data, value));
  }
  StoredTensors of_constants(container, "constants/", move);
  for (const std::uint32_t index : constants.root().items) {
    const PickleItem &value = constants.at(index);
    if (value.kind == PickleKind::text)
      constants_.emplace_back(value.text);
    else
      constants_.emplace_back(of_constants.make_constant(constants, value));
  }
}

void Imported::compile(const std::string &text, std::size_t version) {
  const auto source = std::make_shared<jit::Source>(text, std::string(kSourceRecord), 1);
  unit_ = std::make_shared<jit::CompilationUnit>();
  const jit::SourceImporter importer(
      unit_, &constants_,
      [source](const std::string &name) {
        return name == "__torch__.tracehost" ? source : std::shared_ptr<jit::Source>();
      },
      version);
  type_ =
      importer.loadType(c10::QualifiedName("__torch__.tracehost.Archive"))->cast<c10::ClassType>();
  if (!type_)
    wrong_file("its source has no class of an archive");
  for (jit::Function *method : type_->methods())
    jit::toGraphFunction(*method).graph(); // compiles it, while the importer is there
}

Imported::Imported(const Container &container, const std::set<std::string> &methods,
                   const std::vector<std::string> &libraries, DeviceMove move) {
  Parts parts = parts_of(container, methods);
  lines_ = std::move(parts.lines);
  read_tensors(container, parts.data, parts.constants, move);
  compile(parts.source.text, parts.version);
  for (const std::string &method : methods)
    check_operators(jit::toGraphFunction(type_->getMethod(method)).graph()->block(), libraries);
}

at::Tensor Imported::tensor(const std::string &attribute) const {
  const auto found = tensors_.find(attribute);
  if (found == tensors_.end())
    wrong_file(fmt::format("it has no tensor '{}'", attribute));
  return found->second;
}

std::shared_ptr<jit::Graph> Imported::graph(const std::string &method) const {
  auto graph = jit::toGraphFunction(type_->getMethod(method)).graph()->copy();
  raise(*graph, [&](const jit::SourceRange &range) { return lines_.place(range.start()); });
  return graph;
}

std::string manifest_text(const Container &container) {
  const std::string name = fmt::format("extra/{}", kManifest);
  if (!container.has(name))
    wrong_file("it has no manifest");
  return container.text(name);
}

std::string checked_source(const Container &container) {
  return parts_of(container, methods_of(from_json(manifest_text(container)))).source.text;
}

} // namespace tracehost::archive
