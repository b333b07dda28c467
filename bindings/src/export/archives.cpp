#include "export/export.h"

#include "archive/write.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/object.h"
#include "call/context_probe.h"
#include "call/function_type.h"
#include "concrete/concrete.h"
#include "export/archive_sources.h"
#include "numbers/traced_number.h"
#include "program/checks.h"
#include "pytree/arrays.h"
#include "pytree/native.h"
#include "pytree/pytree.h"
#include "report/ledger.h"
#include "runtime/loaded.h"
#include "trace/tracer.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/utils/pybind.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace tracehost::python {

namespace py = pybind11;

namespace {

/// Runs `f` without the GIL, and translates what an archive's functions throw to Python's.
template <class F> auto without_gil(const F &f) {
  try {
    const py::gil_scoped_release released;
    return f();
  } catch (const archive::Error &e) {
    raise_archive(e.what());
  }
}

/// `path`: bytes, as all paths here. `functions`: each as source_function() takes it. Returns what
/// archive::write() does.
std::vector<std::string> write_archive(const std::string &path, const py::list &functions,
                                       bool source_paths,
                                       const std::map<std::string, std::string> &metadata) {
  std::vector<archive::SourceFunction> sources;
  for (const py::handle entry : functions)
    sources.push_back(source_function(entry, Unstored::reject));
  return without_gil([&] { return archive::write(path, sources, source_paths, metadata); });
}

// ---- loading ------------------------------------------------------------------------------------

/// The arguments of a call, flattened.
struct Given {
  std::vector<Node> nodes; ///< a subtree for each parameter
  std::vector<AtomRef> atoms;
  std::vector<at::Tensor> tensors;
  std::vector<Owned> kept;
};

/// A call of Python's objects.
class ObjectCall final : public runtime::Call {
public:
  ObjectCall(const archive::Entry &entry, const Given &given)
      : Call(require_context()), entry_(entry), given_(&given) {}

  /// Other arguments, which are alive while they are served.
  void replace(const Given &given) { given_ = &given; }

  bool matches(const Signature &signature, bool requires_grad,
               runtime::Slots &slots) const override {
    return runtime::matches(signature, given_->nodes, given_->tensors, requires_grad, slots);
  }
  void run(const Specialization &graph, Operands &operands) const override {
    try {
      run_program(graph, operands);
    } catch (const CheckFailed &) {
      throw;
    } catch (...) {
      set_from_failed_run(entry_.name);
      rethrow();
    }
  }
  Signature signature(const Signature &, std::vector<at::Tensor> &slots) const override {
    Signature made;
    made.parameters = entry_.parameters;
    made.nodes = given_->nodes;
    made.atoms = given_->atoms;
    slots = given_->tensors;
    for (const at::Tensor &t : slots)
      made.slots.push_back(TensorMeta::of(t));
    return made;
  }

private:
  const archive::Entry &entry_;
  const Given *given_;
};

/// An archive in memory; `tracehost._tracehost.Archive`.
class Loaded {
public:
  explicit Loaded(archive::Contents contents) : contents_(std::move(contents)) {}

  /// Throws.
  py::object call(const std::string &name, const py::tuple &values);

  const archive::Contents &contents() const { return contents_; }
  const archive::Entry &entry(const std::string &name) const { return *contents_.find(name); }

private:
  archive::Contents contents_;
  /// Of contents_.functions, from the first call on: who only inspects an archive is in no report.
  std::unordered_map<const archive::Entry *, runtime::Loaded> functions_;
};

std::vector<Node> without_tuple(const std::vector<Node> &tree) {
  std::vector<Node> nodes(tree.begin() + 1, tree.end());
  for (Node &node : nodes)
    --node.end;
  return nodes;
}

/// Throws SignatureError for what no archive's signature has.
Given flattened(const archive::Entry &entry, const py::tuple &values) {
  const Owned plain = with_tensors(values.ptr());
  FlatValue flat = flatten(plain.get(), Purpose::argument);
  Given given;
  given.nodes = without_tuple(flat.nodes);
  try {
    make_native(given.nodes, given.atoms);
  } catch (const Unstorable &reason) {
    Signature shown;
    shown.parameters = entry.parameters;
    shown.nodes = without_tuple(flat.nodes);
    raise(errors().signature,
          fmt::format("{}: argument '{}' is {}, for which no archive has a graph", entry.name,
                      path(shown, reason.node), reason.value));
  }
  for (PyObject *tensor : flat.tensors)
    given.tensors.push_back(THPVariable_Unpack(tensor));
  given.kept = std::move(flat.kept);
  return given;
}

/// The value of the subtree at `at` of `like`, or a tensor made of it where `like` has one.
class Caster {
public:
  Caster(const Signature &like) : like_(like) {}

  /// A new reference; null without an error: it does not fit.
  PyObject *cast(PyObject *value, std::size_t &at) {
    const Node &node = like_.nodes[at];
    if (node.kind == Kind::tensor)
      return tensor(value, at++);
    const bool list = node.kind == Kind::list && PyList_CheckExact(value);
    const bool tuple = node.kind == Kind::tuple && PyTuple_CheckExact(value);
    if (!list && !tuple) {
      at = node.end;
      return Py_NewRef(value);
    }
    const std::uint32_t end = node.end;
    py::list items;
    ++at;
    for (const py::handle item : py::reinterpret_borrow<py::object>(value)) {
      if (at >= end)
        return nullptr;
      PyObject *made = cast(item.ptr(), at);
      if (!made)
        return nullptr;
      items.append(py::reinterpret_steal<py::object>(made));
    }
    if (at != end)
      return nullptr;
    return list ? items.release().ptr() : PyList_AsTuple(items.ptr());
  }

private:
  PyObject *tensor(PyObject *value, std::size_t at) const {
    if (THPVariable_Check(value))
      return Py_NewRef(value);
    const TensorMeta &meta = like_.slots[like_.nodes[at].payload.slot];
    try {
      return py::module_::import("tracehost._arguments.signature")
          .attr("_fit_tensor")(TensorSpec::of(meta), py::reinterpret_borrow<py::object>(value),
                               path(like_, at), false)
          .release()
          .ptr();
    } catch (py::error_already_set &e) {
      if (!e.matches(errors().signature))
        throw;
      return nullptr;
    }
  }
  const Signature &like_;
};

/// Tensors in place of numbers and lists where `like` has tensors. nullopt: they do not fit, or
/// there are none.
std::optional<py::tuple> cast_to(const Signature &like, const py::tuple &values) {
  Caster caster(like);
  py::tuple made(values.size());
  bool changed = false;
  std::size_t at = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyObject *value = caster.cast(values[i].ptr(), at);
    if (!value)
      return std::nullopt;
    changed |= value != values[i].ptr();
    made[i] = py::reinterpret_steal<py::object>(value);
  }
  return changed ? std::optional(made) : std::nullopt;
}

PyObject *result_of(const Specialization &s, Operands &outputs) {
  std::vector<Owned> owned;
  std::vector<PyObject *> tensors;
  std::vector<bool> computed(s.outputs.tensors, false);
  for (const Node &node : s.outputs.nodes)
    if (node.kind == Kind::tensor)
      computed[node.payload.slot] = node.reserved[1] == archive::kComputed;
  for (std::size_t i = 0; i < s.outputs.tensors; ++i) {
    const at::Tensor t = outputs[i].toTensor();
    owned.emplace_back(computed[i] ? number_of(t) : THPVariable_Wrap(t));
    tensors.push_back(owned.back().get());
  }
  std::size_t at = 0;
  return python_tree(s.outputs.nodes, at, tensors);
}

[[noreturn]] void raise_rejection(const SignatureError &rejection) {
  const py::object error = py::handle(errors().signature)(rejection.what());
  error.attr("parameter") = rejection.parameter();
  error.attr("expected") = rejection.expected();
  error.attr("got") = rejection.got();
  error.attr("nearest") = rejection.nearest();
  PyErr_SetObject(errors().signature, error.ptr());
  rethrow();
}

py::object Loaded::call(const std::string &name, const py::tuple &values) {
  const archive::Entry &entry = this->entry(name);
  if (torch::jit::tracer::isTracing() || trace::active())
    raise(errors().trace, fmt::format("{} of an archive is called in a body that is being traced, "
                                      "whose graph can't have it: call it outside, or trace the "
                                      "function that it was saved from.",
                                      name));
  runtime::Loaded &function =
      functions_.try_emplace(&entry, entry, contents_.path, report::ledger(), contents_.hash)
          .first->second;
  const Given given = [&] {
    try {
      return flattened(entry, values);
    } catch (const python_error &e) {
      if (PyErr_GivenExceptionMatches(e.type, errors().signature))
        function.count_rejection();
      throw;
    }
  }();
  ObjectCall call(entry, given);
  PooledOperands operands;
  const Specialization *graph = function.serve(call, *operands);
  for (std::size_t i = 0; i < entry.specializations.size() && !graph; ++i)
    if (const auto cast = cast_to(entry.specializations[i]->signature, values)) {
      const Given other = flattened(entry, *cast);
      call.replace(other);
      graph = function.serve(call, *operands);
      call.replace(given);
    }
  if (!graph)
    raise_rejection(function.rejection(call));
  return py::reinterpret_steal<py::object>(checked(result_of(*graph, *operands)).release());
}

/// `float32[None, 3]` or the structure around: as a Signature's argument.
std::string shown_value(const std::vector<Node> &nodes, const std::vector<TensorMeta> &tensors) {
  Signature shown;
  shown.nodes = nodes;
  shown.slots = tensors;
  shown.parameters = std::make_shared<Parameters>(Parameters{{"result"}, {}, {}});
  std::string text = tracehost::text(shown);
  const std::size_t begin = text.find("result") + 6;
  const std::size_t skip = text.compare(begin, 2, ": ") == 0 ? 2 : 1;
  return text.substr(begin + skip, text.size() - begin - skip - 1);
}

/// A parameter's default. A default of a class that is not imported becomes a NotImported, which
/// has the same text and says why.
py::object default_value(const archive::Value &value) {
  std::size_t at = 0;
  try {
    return py::reinterpret_steal<py::object>(checked(python_tree(value.nodes, at, {})).release());
  } catch (py::error_already_set &e) {
    const py::module_ own = py::module_::import("tracehost._archive");
    if (!e.matches(own.attr("ArchiveError")))
      throw;
    return own.attr("NotImported")(shown_value(value.nodes, {}), py::str(e.value()));
  }
}

/// (name, kind, has a default, default) for each parameter.
py::list parameters(const archive::Entry &entry) {
  py::list result;
  for (std::size_t i = 0; i < entry.parameters->names.size(); ++i) {
    std::string name = entry.parameters->names[i];
    name.erase(0, std::min(name.find_first_not_of('*'), name.size()));
    py::object value = py::none();
    if (const auto &given = entry.defaults[i]) {
      value = default_value(*given);
    }
    result.append(py::make_tuple(name, static_cast<int>(entry.parameters->kinds[i]),
                                 entry.defaults[i].has_value(), value));
  }
  return result;
}

std::string result_text(const Specialization &s) {
  return shown_value(s.outputs.nodes, archive::state(s).outputs);
}

/// What there is of each specialization of a function.
py::list described(const archive::Entry &entry) {
  py::list result;
  for (const SpecializationRef &s : entry.specializations) {
    const archive::State &state = archive::state(*s);
    py::list captures, conditions;
    for (std::size_t i = 0; i < state.captures.size(); ++i)
      captures.append(py::make_tuple(state.attributes[i], s->signature.captures[i].path,
                                     s->signature.captures[i].meta.text()));
    for (const SizeCondition &condition : s->signature.conditions)
      conditions.append(text(condition, s->signature));
    py::dict one;
    one["method"] = state.method;
    one["signature"] = text(s->signature);
    one["result"] = result_text(*s);
    one["captures"] = captures;
    one["conditions"] = conditions;
    one["ops"] = s->program->ops();
    one["no_torchscript"] = state.no_torchscript;
    one["dynamic"] = s->signature.is_dynamic();
    result.append(one);
  }
  return result;
}

py::object tensors(const archive::Entry &entry) {
  py::dict result;
  for (const SpecializationRef &s : entry.specializations) {
    const archive::State &state = archive::state(*s);
    for (std::size_t i = 0; i < state.captures.size(); ++i)
      result[py::str(state.attributes[i])] =
          py::reinterpret_steal<py::object>(THPVariable_Wrap(state.captures[i]));
  }
  return result;
}

std::unique_ptr<Loaded> load(const std::string &path, const std::optional<std::string> &device,
                             int optimize, const std::optional<std::string> &sha256) {
  std::optional<c10::Device> to;
  if (device)
    to = c10::Device(*device);
  return without_gil([&] {
    return std::make_unique<Loaded>(
        archive::read({path, std::nullopt}, {to, {}, Optimize(optimize), sha256}));
  });
}

} // namespace

void add_archives(py::module_ &module) {
  module.def("write_archive", &write_archive);
  module.def("read_archive", &load);
  module.def("read_manifest", [](const std::string &path) {
    return without_gil([&] { return archive::manifest(path); });
  });
  module.def("read_code", [](const std::string &path, std::size_t number) {
    return without_gil([&] { return archive::code(path, number); });
  });
  module.def("concrete_source", [](const Concrete &concrete) {
    return py::make_tuple(concrete.callable(), concrete.stale());
  });
  py::class_<Loaded>(module, "Archive")
      .def("call", &Loaded::call)
      .def("names",
           [](const Loaded &self) {
             std::vector<std::string> names;
             for (const archive::Entry &entry : self.contents().functions)
               names.push_back(entry.name);
             return names;
           })
      .def("parameters",
           [](const Loaded &self, const std::string &name) { return parameters(self.entry(name)); })
      .def("described",
           [](const Loaded &self, const std::string &name) { return described(self.entry(name)); })
      .def("tensors",
           [](const Loaded &self, const std::string &name) { return tensors(self.entry(name)); })
      .def("graph",
           [](const Loaded &self, const std::string &name, std::size_t index) {
             return py::cast(self.entry(name).specializations.at(index)->program->copy_graph());
           })
      .def_property_readonly("facts", [](const Loaded &self) {
        const archive::Contents &c = self.contents();
        py::dict facts;
        facts["path"] = py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefaultAndSize(
            c.path.data(), static_cast<Py_ssize_t>(c.path.size())));
        facts["version"] = c.version;
        facts["tracehost"] = c.tracehost;
        facts["torch"] = c.torch;
        facts["hash"] = c.hash;
        facts["sha256"] = c.sha256;
        facts["device"] = c.device.str();
        facts["metadata"] = c.metadata;
        return facts;
      });
}

} // namespace tracehost::python
