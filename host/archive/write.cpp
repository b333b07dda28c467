#include "archive/write.h"

#include "archive/container.h"
#include "archive/graph_check.h"
#include "archive/import.h"
#include "archive/lower.h"
#include "archive/manifest.h"
#include "archive/source_line.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

/// No names for what Python's parser is to read, besides its keywords.
constexpr std::array<std::string_view, 5> kReserved = {"training", "torch", "ops", "self", "print"};

/// What a torch.nn.Module has by itself, which would hide a method of the same name.
constexpr std::array<std::string_view, 40> kOfModules = {"add_module",
                                                         "apply",
                                                         "bfloat16",
                                                         "buffers",
                                                         "call_super_init",
                                                         "children",
                                                         "code",
                                                         "compile",
                                                         "copy",
                                                         "cpu",
                                                         "cuda",
                                                         "define",
                                                         "double",
                                                         "dump_patches",
                                                         "eval",
                                                         "extra_repr",
                                                         "float",
                                                         "get_buffer",
                                                         "get_extra_state",
                                                         "get_parameter",
                                                         "graph",
                                                         "half",
                                                         "ipu",
                                                         "load_state_dict",
                                                         "modules",
                                                         "mtia",
                                                         "named_buffers",
                                                         "named_children",
                                                         "named_modules",
                                                         "named_parameters",
                                                         "parameters",
                                                         "requires_grad",
                                                         "save",
                                                         "share_memory",
                                                         "state_dict",
                                                         "to",
                                                         "to_empty",
                                                         "train",
                                                         "type",
                                                         "zero_grad"};

/// Names of one module, each given once.
class Names {
public:
  std::string take(const std::string &wanted) {
    std::string base;
    for (const char c : wanted)
      if (std::isalnum(static_cast<unsigned char>(c)))
        base += c;
      else if (!base.empty() && base.back() != '_')
        base += '_';
    while (!base.empty() && base.back() == '_')
      base.pop_back();
    const bool reserved = is_keyword(base) ||
                          std::find(kReserved.begin(), kReserved.end(), base) != kReserved.end() ||
                          std::find(kOfModules.begin(), kOfModules.end(), base) != kOfModules.end();
    if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0])) || reserved)
      base = "f_" + base;
    std::string name = base;
    for (int i = 1; !taken_.insert(name).second; ++i)
      name = fmt::format("{}_{}", base, i);
    return name;
  }

private:
  std::unordered_set<std::string> taken_;
};

/// `weight (net.py)` and `tensor used at net.py:12` without the file.
std::string without_place(std::string path) {
  if (const auto at = path.find(" used at "); at != std::string::npos)
    path.erase(at);
  if (const auto open = path.rfind(" ("); open != std::string::npos && path.ends_with(')'))
    path.erase(open);
  return path;
}

bool is_tensor(const jit::Value *value) {
  return value->type()->isSubtypeOf(*c10::TensorType::get());
}

/// The TorchScript module of an archive, as it grows.
class Builder {
public:
  explicit Builder(bool places)
      : unit_(std::make_shared<jit::CompilationUnit>()),
        module_("__torch__.tracehost.Archive", unit_), places_(places) {
    module_.register_attribute("training", c10::BoolType::get(), false);
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

  /// What plain PyTorch calls.
  void add_forward() {
    if (module_.find_method("forward") || manifest_.functions.empty() ||
        manifest_.functions[0].specializations.empty())
      return;
    const std::string &method = manifest_.functions[0].specializations[0].state.method;
    const auto callee = jit::toGraphFunction(module_.get_method(method).function()).graph();
    auto graph = std::make_shared<jit::Graph>();
    for (const jit::Value *input : callee->inputs())
      graph->addInput(input->hasDebugName() ? input->debugName() : "")->setType(input->type());
    jit::Node *call = graph->insertNode(graph->create(c10::prim::CallMethod, graph->inputs(), 1));
    call->s_(c10::attr::name, method);
    call->output()->setType(callee->outputs()[0]->type());
    graph->registerOutput(call->output());
    add_method("forward", graph);
  }

  Manifest &manifest() { return manifest_; }
  const jit::Module &module() const { return module_; }

private:
  /// What takes more calls comes later.
  static std::size_t generality(const Signature &signature) {
    std::size_t sum = signature.values.empty() ? 1 : 0;
    for (const TensorMeta &slot : signature.slots)
      sum +=
          2 * static_cast<std::size_t>(std::count(slot.sizes.begin(), slot.sizes.end(), kAnySize));
    return sum;
  }

  Record add(const std::string &name, const Source &source) {
    const std::string what = fmt::format("{}{}", name, text(source.signature));
    Record record{source.signature, source.outputs, {}};
    record.state.method = names_.take(name);
    record.state.outputs = source.output_metas;
    Lowered lowered = lower(*source.program, source.outputs.tensors,
                            source.signature.context.autocast(), places_, what);
    try {
      check_operators(lowered.graph->block(), lowered.libraries);
    } catch (const Error &e) {
      throw Error(fmt::format("{} can't be saved: {}", what, e.what()));
    }
    record.state.sets_modes = lowered.sets_modes;
    for (std::string &library : lowered.libraries)
      if (std::find(manifest_.libraries.begin(), manifest_.libraries.end(), library) ==
          manifest_.libraries.end())
        manifest_.libraries.push_back(std::move(library));
    note_devices(source, lowered);
    if (!places_)
      strip_places(record.signature);
    for (std::size_t i = 0; i < source.captures.size(); ++i)
      record.state.attributes.push_back(
          attribute(source.captures[i], record.signature.captures[i].path, source.parameters[i]));
    for (const at::Tensor &constant : lowered.constants) {
      record.signature.captures.push_back(
          {.path = "constant", .meta = TensorMeta::of(constant), .held = true});
      record.state.attributes.push_back(attribute(constant, "constant", false));
    }
    bind(*lowered.graph, record, what);
    add_method(record.state.method, lowered.graph);
    return record;
  }

  static void strip_places(Signature &signature) {
    for (CaptureSpec &capture : signature.captures)
      capture.path = without_place(std::move(capture.path));
    for (SizeCondition &condition : signature.conditions)
      condition.where.clear();
    for (ValueGuard &guard : signature.values)
      guard.where.clear();
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

  std::string attribute(const at::Tensor &tensor, const std::string &path, bool is_parameter) {
    auto &known = attributes_[tensor.unsafeGetTensorImpl()];
    if (!known.empty())
      return known;
    const std::string_view self = "self.";
    known = names_.take(path.starts_with(self) ? path.substr(self.size()) : path);
    if (is_parameter)
      module_.register_parameter(known, tensor, false);
    else
      module_.register_buffer(known, tensor);
    return known;
  }

  /// `self` as first input, captures as its attributes, one output.
  void bind(jit::Graph &graph, const Record &record, const std::string &what) {
    const std::size_t slots = record.signature.slots.size();
    if (graph.inputs().size() != slots + record.state.attributes.size())
      throw Error(fmt::format("{} can't be saved: its graph has {} inputs, {} are known", what,
                              graph.inputs().size(), slots + record.state.attributes.size()));
    jit::Value *self = graph.insertInput(0, "self")->setType(module_._ivalue()->type());
    const jit::WithInsertPoint begin(*graph.block()->nodes().begin());
    for (const std::string &name : record.state.attributes) {
      jit::Value *input = graph.inputs()[1 + slots];
      if (input->hasUses() ||
          std::find(graph.outputs().begin(), graph.outputs().end(), input) != graph.outputs().end())
        input->replaceAllUsesWith(graph.insertGetAttr(self, name));
      graph.eraseInput(1 + slots);
    }
    Names inputs;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      jit::Value *input = graph.inputs()[1 + slot];
      input->setType(c10::TensorType::get());
      input->setDebugName(inputs.take(path(record.signature, record.signature.first_node(slot))) +
                          "_");
    }
    bool plain = true;
    for (const jit::Value *output : graph.outputs())
      plain &= is_tensor(output);
    if (!plain)
      throw Error(fmt::format("{} can't be saved: its graph gives what is no tensor", what));
    pack_outputs(graph);
  }

  static void pack_outputs(jit::Graph &graph) {
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

  void add_method(const std::string &name, const std::shared_ptr<jit::Graph> &graph) {
    const c10::QualifiedName qualified(*module_.type()->name(), name);
    module_.type()->addMethod(unit_->create_function(qualified, graph));
  }

  std::shared_ptr<jit::CompilationUnit> unit_;
  jit::Module module_;
  const bool places_;
  Names names_; ///< of methods and attributes
  std::unordered_map<const c10::TensorImpl *, std::string> attributes_;
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
    builder.manifest().payload = "xxh3:" + file.hash();
    const std::string manifest = to_json(builder.manifest());
    writer.writeRecord(fmt::format("extra/{}", kManifest), manifest.data(), manifest.size());
    writer.writeEndOfFile();
  }
  if (failed)
    std::rethrow_exception(failed);
}

} // namespace

void write(const std::string &path, const std::vector<SourceFunction> &functions, bool source_paths,
           const std::map<std::string, std::string> &metadata) {
  try {
    Builder builder(source_paths);
    builder.manifest().metadata = metadata;
    for (const SourceFunction &function : functions)
      builder.add(function);
    builder.add_forward();
    NewFile file(path);
    write_zip(file, builder);
    file.complete();
    checked_source(Container(std::make_shared<OpenFile>(file.beside())));
    file.publish();
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
