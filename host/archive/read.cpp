#include "archive/archive.h"
#include "archive/container.h"
#include "archive/import.h"
#include "archive/lower.h"
#include "archive/manifest.h"
#include "signature/native_atoms.h"
#include "tape/tapes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/ir/constants.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

/// The first line that says something: texts of PyTorch's begin with an empty one.
std::string first_line(std::string text) {
  text.erase(0, std::min(text.find_first_not_of(" \n"), text.size()));
  text.erase(std::min(text.find('\n'), text.size()));
  return text.empty() ? "an error without a text" : text;
}

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
  Loader(const Imported &imported, Move move, Optimize optimize)
      : imported_(imported), move_(move), optimize_(optimize) {}

  SpecializationRef specialization(Record &&record, const std::string &name) {
    auto made = std::make_shared<Specialization>();
    auto state = std::make_shared<State>(record.state);
    for (const std::string &attribute : state->attributes)
      state->captures.push_back(imported_.tensor(attribute));
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

private:
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
        wrong_file(fmt::format("tensor '{}' is of another form than its manifest says",
                               record.state.attributes[i]));
    }
  }

  std::unique_ptr<Program> program(const Record &record, const std::string &name) {
    auto graph = imported_.graph(record.state.method);
    unbind(*graph, record);
    move_(*graph);
    return std::make_unique<Program>(std::move(graph), name, record.outputs.tensors,
                                     ProgramOptions{.optimize = optimize_,
                                                    .on_device = is_on_device(record.signature),
                                                    .arguments = record.signature.slots.size()});
  }

  /// Attributes as inputs, results as outputs.
  void unbind(jit::Graph &graph, const Record &record) {
    const std::size_t slots = record.signature.slots.size();
    if (graph.inputs().size() != slots + 1)
      wrong_file(fmt::format("method '{}' has other inputs than arguments", record.state.method));
    jit::Value *self = graph.inputs()[0];
    std::unordered_map<std::string, jit::Value *> inputs;
    for (const std::string &attribute : record.state.attributes) {
      jit::Value *input = graph.addInput()->setType(c10::TensorType::get());
      inputs.emplace(attribute, input); // of those that occur twice, the first
    }
    each_node(graph.block(), [&](jit::Node *node) {
      if (node->kind() != c10::prim::GetAttr)
        return;
      const auto found = inputs.find(node->s(c10::attr::name));
      if (node->input() != self || found == inputs.end())
        wrong_file(
            fmt::format("method '{}' reads '{}'", record.state.method, node->s(c10::attr::name)));
      node->output()->replaceAllUsesWith(found->second);
      node->destroy();
    });
    if (self->hasUses())
      wrong_file(fmt::format("method '{}' uses the module", record.state.method));
    graph.eraseInput(0);
    unpack_outputs(graph, record);
  }

  static void unpack_outputs(jit::Graph &graph, const Record &record) {
    std::vector<jit::Value *> results;
    jit::Value *result = graph.outputs().size() == 1 ? graph.outputs()[0] : nullptr;
    if (!result)
      wrong_file(fmt::format("method '{}' has no result", record.state.method));
    const bool is_tuple = result->type()->kind() == c10::TypeKind::TupleType;
    if (is_tuple) {
      const jit::WithInsertPoint end(graph.block()->return_node());
      const auto unpacked = graph.insertNode(graph.createTupleUnpack(result));
      results.assign(unpacked->outputs().begin(), unpacked->outputs().end());
    } else if (result->type()->kind() != c10::TypeKind::NoneType) {
      results.push_back(result);
    }
    graph.eraseOutput(0);
    for (jit::Value *value : results) {
      if (!value->type()->isSubtypeOf(*c10::TensorType::get()))
        wrong_file(fmt::format("method '{}' gives what is no tensor", record.state.method));
      graph.registerOutput(value);
    }
    if (results.size() != record.outputs.tensors)
      wrong_file(
          fmt::format("method '{}' gives other tensors than its result has", record.state.method));
  }

  const Imported &imported_;
  Move move_;
  Optimize optimize_;
  std::uint64_t number_ = 0;
};

/// Throws where there is no such device.
void check_device(const c10::Device &device, const Manifest &manifest) {
  if (device.is_cpu())
    return;
  try {
    at::empty({0}, at::TensorOptions().device(device));
  } catch (const std::exception &) {
    throw Error(fmt::format("it is for the device {}, which is not here. {}", device.str(),
                            device == manifest.device ? "Load it to another: device=\"cpu\"."
                                                      : "Give one that is."));
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

Imported imported(const Container &container, const Manifest &manifest,
                  const std::set<std::string> &methods, DeviceMove move) {
  if (const std::string names = missing(manifest); !names.empty())
    throw Error(fmt::format("it has operators of {}, which nothing here has registered. Import the "
                            "package, or load the library, before the archive.",
                            names));
  try {
    return {container, methods, manifest.libraries, move};
  } catch (const Error &) {
    throw;
  } catch (const std::exception &e) {
    const auto *const own = dynamic_cast<const c10::Error *>(&e);
    throw Error(
        fmt::format("PyTorch {} can't read it ({}); it was written with {}", TRACEHOST_BUILT_TORCH,
                    first_line(own ? own->what_without_backtrace() : e.what()), manifest.torch));
  }
}

Contents load(const Input &input, const ReadOptions &options) {
  const c10::InferenceMode off(false); // what is read serves any mode
  const auto &[path, bytes] = input;
  const auto file =
      bytes ? std::make_shared<OpenFile>(path, *bytes) : std::make_shared<OpenFile>(path);
  const Container container(file);
  Manifest manifest = from_json(manifest_text(container));
  const std::set<std::string> methods = methods_of(manifest); // those left out, too
  choose(manifest, options.functions);
  const Move move{
      {manifest.device, options.device ? with_index(*options.device) : manifest.device}};
  check_device(move.to, manifest);
  check_move(manifest, move);
  const Imported from = imported(container, manifest, methods, move);
  Contents contents{path,
                    manifest.version,
                    manifest.tracehost,
                    manifest.torch,
                    "xxh3:" + file->hash(),
                    move.to,
                    {},
                    std::move(manifest.metadata)};
  Loader loader(from, move, options.optimize.value_or(tape::by_default()));
  for (Manifest::Function &function : manifest.functions) {
    if (contents.find(function.name))
      wrong_file(fmt::format("it has two functions '{}'", function.name));
    Entry entry{function.name, function.parameters, std::move(function.defaults), {}};
    for (Record &record : function.specializations)
      entry.specializations.push_back(loader.specialization(std::move(record), function.name));
    contents.functions.push_back(std::move(entry));
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

namespace {

/// What goes wrong as an Error that names the file.
template <class F> auto with_path(const std::string &path, const F &f) {
  const std::string shown = path.substr(0, path.find('\0')); // an exception's text ends there
  const auto named = [&](const std::string &text) {
    return Error(text.starts_with(shown) ? text : fmt::format("{}: {}", shown, text));
  };
  try {
    return f();
  } catch (const Error &e) {
    throw named(e.what());
  } catch (const c10::Error &e) {
    throw named(first_line(e.what_without_backtrace()));
  } catch (const std::exception &e) {
    throw named(first_line(e.what()));
  }
}

} // namespace

Contents read(const Input &input, const ReadOptions &options) {
  return with_path(input.path, [&] { return load(input, options); });
}

Contents read(const std::string &path, std::optional<c10::Device> device,
              std::optional<Optimize> optimize) {
  return read({path, std::nullopt}, {device, {}, optimize});
}

std::string source(const std::string &path) {
  return with_path(path,
                   [&] { return checked_source(Container(std::make_shared<OpenFile>(path))); });
}

std::string manifest(const std::string &path) {
  return with_path(path, [&] {
    std::string text = manifest_text(Container(std::make_shared<OpenFile>(path)));
    from_json(text);
    return text;
  });
}

} // namespace tracehost::archive
