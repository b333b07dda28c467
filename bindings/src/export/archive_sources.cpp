#include "export/archive_sources.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "base/object.h"
#include "concrete/concrete.h"
#include "pytree/container.h"
#include "pytree/native.h"
#include "pytree/pytree.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace tracehost::python {

namespace py = pybind11;

namespace {

[[noreturn]] void reject(const std::string &what, const std::string &reason) {
  raise_archive(fmt::format("{} can't be saved: {}", what, reason));
}

bool is_plain(const void *type) {
  return type == nullptr || type == THPVariableClass || type == ParameterClass ||
         std::string_view(static_cast<const PyTypeObject *>(type)->tp_name) == "Buffer";
}

void make_plain(TensorMeta &meta, const std::string &what, const std::string &path) {
  if (!is_plain(meta.type))
    reject(what, fmt::format("'{}' is a {}, whose own operators would be lost. Pass a plain tensor",
                             path, meta.type_name));
  meta.type = nullptr;
  meta.type_name = "Tensor";
}

/// Without the first `count` parameters, whose values are part of the graph.
void drop_parameters(Signature &signature, std::size_t count) {
  if (count == 0)
    return;
  const auto first = static_cast<std::uint32_t>(signature.subtree(count));
  signature.nodes.erase(signature.nodes.begin(), signature.nodes.begin() + first);
  for (Node &node : signature.nodes)
    node.end -= first;
  auto parameters = std::make_shared<Parameters>(*signature.parameters);
  const auto drop = [&](auto &list) {
    if (list.size() >= count)
      list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
  };
  drop(parameters->names);
  drop(parameters->kinds);
  drop(parameters->defaults);
  signature.parameters = std::move(parameters);
}

Signature native_signature(const Concrete &concrete, const std::string &what) {
  Signature signature = concrete.specialization().signature;
  const PythonState &state = concrete.state();
  if (state.rebinds) {
    const auto stores = state.guards->rebindings();
    reject(what,
           stores.empty()
               ? "the body changes an argument that is a list or dict, which a call of an "
                 "archive does not do. Return the new value"
               : fmt::format("the body stores to the Python variable {}, which no archive has. "
                             "Return the value in place of the store, or give the variable a "
                             "tensor before the first call and change that tensor by copy_()",
                             stores.front().what));
  }
  if (!signature.grads.empty())
    reject(what, fmt::format("the body reads {}, and an archive has no gradients. Save the forward "
                             "function",
                             grad_path(signature.input_path(signature.grads[0].input))));
  for (const CaptureSpec &capture : signature.captures)
    if (capture.same_as_slot >= 0)
      reject(what,
             fmt::format("argument '{}' is the same tensor that the body reaches as {}, "
                         "which becomes the archive's own. Request it with another tensor",
                         signature.input_path(static_cast<std::uint32_t>(capture.same_as_slot)),
                         capture.path));
  drop_parameters(signature, concrete.bound_parameters());
  for (std::uint32_t slot = 0; slot < signature.slots.size(); ++slot)
    make_plain(signature.slots[slot], what, signature.input_path(slot));
  signature.captures.resize(state.captures);
  for (CaptureSpec &capture : signature.captures)
    make_plain(capture.meta, what, capture.path);
  signature.guarded.clear();
  signature.context.included = signature.context.excluded = 0;
  signature.context.default_device = 0;
  Signature shown = signature;
  try {
    make_native(signature.nodes, signature.atoms);
  } catch (const Unstorable &reason) {
    reject(what, fmt::format("argument '{}' is {}, which an archive can't hold. Let the body reach "
                             "it (self, a closure, functools.partial) in place of passing it",
                             path(shown, reason.node), reason.value));
  }
  return signature;
}

namespace {

/// Appends the subtree at `at`, with containers again wherever the result has them again: an
/// archive makes each of them.
void append_apart(const std::vector<Node> &from, std::size_t at, std::vector<Node> &to) {
  const Node &node = from[at];
  const bool again = node.kind == Kind::alias && node.reserved[1] == kShared;
  const auto *type =
      again ? dynamic_cast<const ContainerType *>(from[node.payload.alias.node].is_container()
                                                      ? from[node.payload.alias.node].payload.atom
                                                      : nullptr)
            : nullptr;
  if (type && (type->form() <= Form::dict || type->form() == Form::record))
    return append_apart(from, node.payload.alias.node, to);
  const std::size_t index = to.size();
  to.push_back(node);
  for (std::size_t child = at + 1; child < node.end; child = from[child].end)
    append_apart(from, child, to);
  to[index].end = static_cast<std::uint32_t>(to.size());
}

} // namespace

OutputSpec native_outputs(const Concrete &concrete, const std::string &what) {
  OutputSpec outputs = concrete.specialization().outputs;
  std::vector<Node> apart;
  append_apart(outputs.nodes, 0, apart);
  outputs.nodes = std::move(apart);
  try {
    make_native(outputs.nodes, outputs.atoms);
  } catch (const Unstorable &reason) {
    reject(what, fmt::format("its result holds {}, which an archive can't", reason.value));
  }
  return outputs;
}

/// An archive has tensors of its own, whose sizes are constants.
void fix_sizes_of_captures(archive::Source &source, const std::string &what) {
  struct NoSizes final : SizeSource {
    std::int64_t size(std::int32_t, std::int32_t) const override { return kAnySize; }
  };
  const std::size_t slots = source.signature.slots.size();
  std::erase_if(source.signature.conditions, [&](SizeCondition &condition) {
    const std::string shown = text(condition, source.signature);
    bool fixed = false, open = false;
    for (SizeTerm &term : condition.expression) {
      if (term.op != SizeTerm::Op::size)
        continue;
      const auto input = static_cast<std::size_t>(term.slot);
      if (input < slots) {
        open = true;
        continue;
      }
      fixed = true;
      term = {SizeTerm::Op::constant, -1, -1, source.captures[input - slots].size(term.dimension)};
    }
    if (!fixed || open)
      return false;
    if (!holds(condition, NoSizes()))
      reject(what, fmt::format("its graph is for sizes where {}, which is not so now. Trace it "
                               "again",
                               shown));
    return true;
  });
}

/// `shapes`: of the result's tensors, with None for sizes that follow from those that may be any.
archive::Source source(Concrete &concrete, const py::list &shapes, const std::string &what) {
  archive::Source result;
  result.program = concrete.specialization().program;
  result.signature = native_signature(concrete, what);
  result.outputs = native_outputs(concrete, what);
  result.output_metas = concrete.state().outputs;
  for (std::size_t i = 0; i < result.output_metas.size(); ++i) {
    TensorMeta &meta = result.output_metas[i];
    meta.type = nullptr;
    meta.type_name = "Tensor";
    const py::tuple shape = shapes[i];
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d].is_none())
        meta.make_dynamic(d);
  }
  for (const py::handle object : concrete.captured_inputs()) {
    result.captures.push_back(THPVariable_Unpack(object.ptr()));
    result.parameters.push_back(PyObject_IsInstance(object.ptr(), ParameterClass) == 1);
    TensorMeta now = TensorMeta::of(result.captures.back());
    result.signature.captures[result.captures.size() - 1].meta = std::move(now);
  }
  fix_sizes_of_captures(result, what);
  return result;
}

/// By parameter; what can't be stored is no default: it has to be given.
std::optional<archive::Value> default_of(const py::dict &defaults, const std::string &name) {
  const py::str key(name.substr(std::min(name.find_first_not_of('*'), name.size())));
  if (!defaults.contains(key))
    return std::nullopt;
  try {
    const FlatValue flat = flatten(py::object(defaults[key]).ptr(), Purpose::argument);
    archive::Value value{flat.nodes, flat.atoms};
    if (!flat.tensors.empty())
      return std::nullopt;
    make_native(value.nodes, value.atoms);
    return value;
  } catch (const Unstorable &) {
    return std::nullopt;
  }
}

std::int32_t default_device(const Concrete &concrete) {
  return concrete.specialization().signature.context.default_device;
}

/// Calls of an archive have none: two graphs that differ in it would serve the same calls.
void check_default_device(const std::string &name, const Concrete &a, const Concrete &b) {
  const auto &made = a.specialization().signature.context;
  for (const ContextDifference &d : differences(made, b.specialization().signature.context))
    if (d.field == "default device")
      reject(name, fmt::format("its graphs were traced under different default devices ({}, {}), "
                               "and calls of an archive have none. Save those of one, by "
                               "get_concrete_function",
                               d.before, d.after));
}

void add(archive::SourceFunction &made, Concrete &concrete, const py::list &shapes,
         Unstored unstored) {
  const bool skips = unstored == Unstored::skip;
  const Specialization &specialization = concrete.specialization();
  // A call from C++ has no default device.
  if (skips && (specialization.program->calls_python() || default_device(concrete) != 0))
    return;
  try {
    made.specializations.push_back(source(concrete, shapes, made.name));
  } catch (const python_error &) {
    if (!skips)
      throw;
    forget_error();
  }
}

} // namespace

[[noreturn]] void raise_archive(const std::string &message) {
  const py::object type = py::module_::import("tracehost._errors").attr("ArchiveError");
  // A path, and what a file holds, need not be UTF-8.
  const py::object text = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  if (text)
    PyErr_SetObject(type.ptr(), text.ptr());
  rethrow();
}

archive::SourceFunction source_function(const py::handle &entry, Unstored unstored) {
  const auto [name, defaults, concretes] =
      py::cast<std::tuple<std::string, py::dict, py::list>>(entry);
  archive::SourceFunction made{name, nullptr, {}, {}};
  const Concrete *first = nullptr;
  for (const py::handle pair : concretes) {
    const auto [object, shapes] = py::cast<std::tuple<py::object, py::list>>(pair);
    Concrete &concrete = py::cast<Concrete &>(object);
    if (!first)
      first = &concrete;
    if (unstored == Unstored::reject)
      check_default_device(name, *first, concrete);
    add(made, concrete, shapes, unstored);
  }
  if (made.specializations.empty())
    return made;
  made.parameters = made.specializations[0].signature.parameters;
  for (const archive::Source &s : made.specializations)
    if (s.signature.parameters->names != made.parameters->names)
      reject(name, "its ConcreteFunctions are of functions with other parameters");
  for (const std::string &parameter : made.parameters->names)
    made.defaults.push_back(default_of(defaults, parameter));
  return made;
}

} // namespace tracehost::python
