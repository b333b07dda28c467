#include "archive/archive.h"
#include "archive/graph_record.h"
#include "archive/manifest.h"
#include "archive/open_file.h"
#include "archive/opened.h"
#include "capture/pool.h"
#include "signature/native_atoms.h"
#include "tape/tapes.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/ir/constants.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

/// Puts all of a function that is on one device on another.
struct Move : DeviceMove {
  void operator()(TensorMeta &meta) const { meta.device = DeviceMove::operator()(meta.device); }
  void operator()(Node &node) const {
    if (node.kind == Kind::device && device_of(node) == from)
      node.payload.integer = device_code(to);
  }
  void operator()(jit::Graph &graph) const {
    if (!needed())
      return;
    each_node(graph.block(), [&](jit::Node *node) {
      if (node->kind() != c10::prim::Constant || node->outputs().size() != 1)
        return;
      const auto constant = jit::toIValue(node->output());
      if (!constant || !constant->isDevice() || constant->toDevice() != from)
        return;
      const jit::WithInsertPoint here(node);
      node->output()->replaceAllUsesWith(graph.insertConstant(to));
      node->destroy();
    });
  }
};

/// The kind of keys that tensors of the meta's have on its device.
void complete_keys(TensorMeta &meta) {
  if (meta.device.is_cpu())
    return; // as the manifest's reader has them
  const at::Layout layout = meta.keys.has_any(c10::sparse_ks)       ? at::kSparse
                            : meta.keys.has_any(c10::sparse_csr_ks) ? at::kSparseCsr
                                                                    : at::kStrided;
  meta.keys = new_keys(meta.dtype, layout, meta.device, meta.keys.has(c10::DispatchKey::Conjugate),
                       meta.keys.has(c10::DispatchKey::Negative));
}

class Loader {
public:
  Loader(const GraphReader &graphs, const std::vector<std::string> &libraries, Move move,
         Optimize optimize)
      : graphs_(graphs), libraries_(libraries), move_(move), optimize_(optimize) {}

  Entry entry(Manifest::Function &&function) {
    pools_ = std::make_shared<capture::Pools>();
    Entry made{function.name, function.parameters, std::move(function.defaults), {}};
    for (Record &record : function.specializations)
      made.specializations.push_back(specialization(std::move(record), function.name));
    return made;
  }

private:
  SpecializationRef specialization(Record &&record, const std::string &name) {
    auto made = std::make_shared<Specialization>();
    auto state = std::make_shared<State>(record.state);
    for (const std::string &attribute : state->attributes)
      state->captures.push_back(graphs_.tensors().of(attribute));
    for (TensorMeta &meta : state->outputs)
      move_(meta);
    check_captures(record, state->captures);
    for (TensorMeta &slot : record.signature.slots)
      rehome(slot);
    for (CaptureSpec &capture : record.signature.captures)
      rehome(capture.meta);
    for (Node &node : record.signature.nodes)
      move_(node);
    made->program = program(record, name);
    made->signature = std::move(record.signature);
    made->outputs = std::move(record.outputs);
    for (Node &node : made->outputs.nodes)
      move_(node);
    made->front_end = std::move(state);
    made->number = ++number_;
    made->bytes = estimated_bytes(*made);
    return made;
  }

  void rehome(TensorMeta &meta) const {
    move_(meta);
    complete_keys(meta);
  }

  /// What is compared with a capture reads as much as the manifest says that it has.
  static void check_captures(const Record &record, const std::vector<at::Tensor> &captures) {
    for (std::size_t i = 0; i < captures.size(); ++i) {
      const TensorMeta &told = record.signature.captures[i].meta;
      const at::Tensor &t = captures[i];
      if (told.dtype != t.scalar_type() ||
          !std::equal(told.sizes.begin(), told.sizes.end(), t.sizes().begin(), t.sizes().end()))
        wrong_file(fmt::format("tensor '{}' differs in shape or dtype from its manifest",
                               record.state.attributes[i]));
    }
  }

  std::unique_ptr<Program> program(const Record &record, const std::string &name) {
    auto graph = checked_graph(graphs_, record, libraries_);
    move_(*graph);
    return std::make_unique<Program>(std::move(graph), name, record.outputs.tensors,
                                     ProgramOptions{.optimize = optimize_,
                                                    .on_device = is_on_device(record.signature),
                                                    .pools = pools_,
                                                    .arguments = record.signature.slots.size()});
  }

  const GraphReader &graphs_;
  const std::vector<std::string> &libraries_;
  Move move_;
  Optimize optimize_;
  std::shared_ptr<capture::Pools> pools_; ///< of the function that is read
  std::uint64_t number_ = 0;
};

/// Throws where there is no such device.
void check_device(const c10::Device &device, const Manifest &manifest) {
  if (device.is_cpu())
    return;
  try {
    at::empty({0}, at::TensorOptions().device(device));
  } catch (const std::exception &) {
    throw Error(fmt::format("it is for the device {}, which this machine does not have. {}",
                            device.str(),
                            device == manifest.device ? "Load it to another: device=\"cpu\"."
                                                      : "Give device= one that it has."));
  }
}

c10::Device with_index(c10::Device device) {
  return device.is_cpu()                          ? c10::Device(at::kCPU)
         : device.has_index() || device.is_meta() ? device
                                                  : c10::Device(device.type(), 0);
}

/// Whether it can be put elsewhere: it is on one device, beside the CPU.
void check_move(const Manifest &manifest, const Move &move) {
  if (!move.needed())
    return;
  const auto check = [&](const TensorMeta &meta) {
    if (meta.device != move.from && !meta.device.is_cpu())
      throw Error(fmt::format("it has tensors on {} and on {}: it can be loaded to where it was "
                              "made only. Leave out device=.",
                              move.from.str(), meta.device.str()));
  };
  for (const Manifest::Function &function : manifest.functions)
    for (const Record &record : function.specializations) {
      for (const TensorMeta &slot : record.signature.slots)
        check(slot);
      for (const CaptureSpec &capture : record.signature.captures)
        check(capture.meta);
    }
}

/// Leaves those functions alone that are asked for.
void choose(Manifest &manifest, const std::vector<std::string> &names) {
  if (names.empty())
    return;
  std::vector<std::string> known;
  for (const Manifest::Function &function : manifest.functions)
    known.push_back(function.name);
  for (const std::string &name : names)
    if (std::ranges::find(known, name) == known.end())
      throw Error(fmt::format("it has no function '{}'; it has {}", name, fmt::join(known, ", ")));
  std::erase_if(manifest.functions, [&](const Manifest::Function &function) {
    return std::find(names.begin(), names.end(), function.name) == names.end();
  });
}

/// The file's, if it is asked for.
std::string checked_digest(const OpenFile &file, const std::optional<std::string> &wanted) {
  if (!wanted)
    return {};
  std::string expected = *wanted;
  for (char &c : expected)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::size_t digits = 64;
  if (!expected.empty() && (expected.size() != digits ||
                            expected.find_first_not_of("0123456789abcdef") != std::string::npos))
    throw Error(
        fmt::format("sha256='{}' is not a SHA-256: give its {} hex digits, as sha256sum prints "
                    "them",
                    *wanted, digits));
  std::string found = file.sha256();
  if (!expected.empty() && expected != found)
    throw Error(
        fmt::format("its SHA-256 is {}, not {}. Fetch the file that has this digest, or give "
                    "the digest of this file.",
                    found, expected));
  return found;
}

Contents load(const Input &input, const ReadOptions &options) {
  const c10::InferenceMode off(false); // what is read serves any mode
  const auto &[path, bytes] = input;
  const auto file = bytes ? OpenFile::copy(path, *bytes) : OpenFile::read(path);
  const std::string sha256 = checked_digest(*file, options.sha256);
  const Opened opened(file);
  Manifest manifest = opened.manifest();
  choose(manifest, options.functions);
  const Move move{
      {manifest.device, options.device ? with_index(*options.device) : manifest.device}};
  check_device(move.to, manifest);
  check_move(manifest, move);
  const GraphReader graphs = opened.graphs(move);
  Contents contents{path,
                    manifest.version,
                    manifest.tracehost,
                    manifest.torch,
                    "xxh3:" + file->hash(),
                    sha256,
                    move.to,
                    {},
                    std::move(manifest.metadata)};
  Loader loader(graphs, manifest.libraries, move, options.optimize.value_or(tape::by_default()));
  for (Manifest::Function &function : manifest.functions) {
    if (contents.find(function.name))
      wrong_file(fmt::format("it has two functions '{}'", function.name));
    contents.functions.push_back(loader.entry(std::move(function)));
  }
  return contents;
}

} // namespace

const State &state(const Specialization &specialization) {
  return static_cast<const State &>(*specialization.front_end);
}

const Entry *Contents::find(const std::string &name) const {
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const Entry &entry) { return entry.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

Contents read(const Input &input, const ReadOptions &options) {
  return with_path(input.path, [&] { return load(input, options); });
}

Contents read(const std::string &path) { return read({path, std::nullopt}, {}); }

} // namespace tracehost::archive
