#include "archive/write.h"

#include "archive/container.h"
#include "archive/graph_check.h"
#include "archive/graph_record.h"
#include "archive/lower.h"
#include "archive/manifest.h"
#include "archive/names.h"
#include "archive/new_file.h"
#include "archive/open_file.h"
#include "archive/opened.h"
#include "archive/torchscript.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/export.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

/// What is written, as it grows: graphs, tensors, the copy in TorchScript, and the manifest.
class Builder {
public:
  explicit Builder(bool places)
      : graphs_([this](const at::Tensor &tensor, const char *what) {
          return number(tensor, what, TorchScriptCopy::Role::constant);
        }),
        places_(places) {
    manifest_.tracehost = TRACEHOST_VERSION;
    manifest_.torch = TRACEHOST_BUILT_TORCH;
  }

  void add(const SourceFunction &function) {
    Manifest::Function made{function.name, function.parameters, function.defaults, {}};
    std::vector<const Source *> order;
    for (const Source &source : function.specializations)
      order.push_back(&source);
    std::stable_sort(order.begin(), order.end(), [](const Source *a, const Source *b) {
      return generality(a->signature) < generality(b->signature);
    });
    for (const Source *source : order)
      made.specializations.push_back(add(function.name, *source));
    manifest_.functions.push_back(std::move(made));
  }

  /// The module, once all functions are added.
  const jit::Module &module() {
    if (!manifest_.functions.empty() && !manifest_.functions[0].specializations.empty())
      copy_.add_forward(manifest_.functions[0].specializations[0].state.method);
    return copy_.module();
  }
  std::string graphs() const { return graphs_.bytes(tensors_); }
  Manifest &manifest() { return manifest_; }

private:
  /// What takes more calls comes later.
  static std::size_t generality(const Signature &signature) {
    std::size_t sum = 0;
    for (const TensorMeta &slot : signature.slots)
      sum +=
          2 * static_cast<std::size_t>(std::count(slot.sizes.begin(), slot.sizes.end(), kAnySize));
    return sum;
  }

  Record add(const std::string &name, const Source &source) {
    const std::string what = fmt::format("{}{}", name, text(source.signature));
    Record record{source.signature, source.outputs, {}, 0};
    record.state.method = names_.take(name);
    record.state.outputs = source.output_metas;
    Lowered lowered = lower(*source.program, source.signature.context.autocast(), places_, what);
    record.state.sets_modes = lowered.sets_modes;
    for (std::string &library : lowered.libraries)
      if (std::find(manifest_.libraries.begin(), manifest_.libraries.end(), library) ==
          manifest_.libraries.end())
        manifest_.libraries.push_back(std::move(library));
    note_devices(source, lowered);
    if (!places_)
      strip_places(record.signature);
    for (std::size_t i = 0; i < source.captures.size(); ++i)
      record.state.attributes.push_back(attribute(
          source.captures[i], record.signature.captures[i].path,
          source.parameters[i] ? TorchScriptCopy::Role::parameter : TorchScriptCopy::Role::buffer));
    for (const at::Tensor &constant : lowered.constants) {
      record.signature.captures.push_back(
          {.path = "constant", .meta = TensorMeta::of(constant), .held = true});
      record.state.attributes.push_back(
          attribute(constant, "constant", TorchScriptCopy::Role::buffer));
    }
    add_graph(*lowered.graph, record, what);
    return record;
  }

  void add_graph(jit::Graph &graph, Record &record, const std::string &what) {
    const std::size_t slots = record.signature.slots.size();
    if (graph.inputs().size() != slots + record.state.attributes.size())
      throw Error(fmt::format("{} can't be saved: its graph has {} inputs, {} are known", what,
                              graph.inputs().size(), slots + record.state.attributes.size()));
    for (const jit::Value *output : graph.outputs())
      if (!output->type()->isSubtypeOf(*c10::TensorType::get()))
        throw Error(fmt::format("{} can't be saved: its graph gives what is no tensor", what));
    try {
      check_operators(graph.block(), manifest_.libraries);
      record.graph = graphs_.add(graph);
    } catch (const Error &e) {
      throw Error(fmt::format("{} can't be saved: {}", what, e.what()));
    }
    record.state.no_torchscript =
        copy_.add_method(record.state.method, graph, argument_names(record.signature),
                         record.state.attributes, [this](const at::Tensor &constant) {
                           const auto known = known_.find(constant.unsafeGetTensorImpl());
                           return known == known_.end() ? std::string() : known->second.name;
                         });
  }

  static std::vector<std::string> argument_names(const Signature &signature) {
    Names names;
    std::vector<std::string> result;
    for (std::uint32_t slot = 0; slot < signature.slots.size(); ++slot)
      result.push_back(names.take(path(signature, signature.first_node(slot))) + "_");
    return result;
  }

  static void strip_places(Signature &signature) {
    for (CaptureSpec &capture : signature.captures)
      capture.path = without_place(std::move(capture.path));
    for (SizeCondition &condition : signature.conditions)
      condition.where.clear();
    for (CheckedNumber &number : signature.checked)
      number.where.clear();
  }

  void note_devices(const Source &source, const Lowered &lowered) {
    const auto note = [&](const c10::Device &device) {
      if (manifest_.device.is_cpu())
        manifest_.device = device;
    };
    for (const TensorMeta &slot : source.signature.slots)
      note(slot.device);
    for (const CaptureSpec &capture : source.signature.captures)
      note(capture.meta.device);
    note(lowered.device);
  }

  struct Known {
    std::string name;
    std::uint64_t number;
  };

  const Known &known(const at::Tensor &tensor, const std::string &path,
                     TorchScriptCopy::Role role) {
    const auto [found, is_new] = known_.emplace(tensor.unsafeGetTensorImpl(), Known{});
    if (is_new) {
      const std::string_view self = "self.";
      const std::string name =
          names_.take(path.starts_with(self) ? path.substr(self.size()) : path);
      copy_.add_tensor(name, tensor, role);
      found->second = {name, tensors_.add(name, tensor)};
    }
    return found->second;
  }
  std::string attribute(const at::Tensor &tensor, const std::string &path,
                        TorchScriptCopy::Role role) {
    return known(tensor, path, role).name;
  }
  std::uint64_t number(const at::Tensor &tensor, const std::string &path,
                       TorchScriptCopy::Role role) {
    return known(tensor, path, role).number;
  }

  GraphWriter graphs_;
  TensorTable tensors_;
  TorchScriptCopy copy_;
  const bool places_;
  Names names_; ///< of methods and tensors
  std::unordered_map<const c10::TensorImpl *, Known> known_;
  Manifest manifest_;
};

void write_zip(NewFile &file, Builder &builder) {
  // An exception of the file is stored and thrown below, because the writer's destructor writes
  // too, and must not throw. All later writes are dropped.
  std::exception_ptr failed;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void *bytes, std::size_t count) {
      try {
        if (!failed)
          file.append(bytes, count);
      } catch (...) {
        failed = std::current_exception();
      }
      return count;
    });
    jit::ScriptModuleSerializer(writer).serialize(builder.module(), {}, false, false);
    const std::string graphs = builder.graphs();
    writer.writeRecord(kGraphs, graphs.data(), graphs.size());
    builder.manifest().payload = "xxh3:" + file.hash();
    const std::string manifest = to_json(builder.manifest());
    writer.writeRecord(fmt::format("extra/{}", kManifest), manifest.data(), manifest.size());
    writer.writeEndOfFile();
  }
  if (failed)
    std::rethrow_exception(failed);
}

} // namespace

std::vector<std::string> write(const std::string &path,
                               const std::vector<SourceFunction> &functions, bool source_paths,
                               const std::map<std::string, std::string> &metadata) {
  try {
    Builder builder(source_paths);
    builder.manifest().metadata = metadata;
    for (const SourceFunction &function : functions)
      builder.add(function);
    NewFile file(path);
    write_zip(file, builder);
    file.complete();
    check_file(OpenFile::map(file.beside()));
    file.publish();
    std::vector<std::string> notes;
    for (const Manifest::Function &function : builder.manifest().functions)
      for (const Record &record : function.specializations)
        if (!record.state.no_torchscript.empty())
          notes.push_back(fmt::format("{}{}: {}", function.name, text(record.signature),
                                      record.state.no_torchscript));
    return notes;
  } catch (const Error &e) {
    const std::string text = e.what();
    if (text.starts_with("it is not what tracehost writes"))
      throw Error(fmt::format("{} can't be written: it could not be loaded ({})", path, text));
    throw;
  } catch (const c10::Error &e) {
    throw Error(fmt::format("{} can't be written: {}", path, e.what_without_backtrace()));
  } catch (const std::exception &e) {
    throw Error(fmt::format("{} can't be written: {}", path, e.what()));
  }
}

} // namespace tracehost::archive
