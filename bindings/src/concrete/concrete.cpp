#include "concrete/concrete.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/object.h"
#include "concrete/input_names.h"
#include "program/modes.h"
#include "program/nodes.h"
#include "pytree/leaf.h"
#include "pytree/results.h"
#include "signature/tensor_spec.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/error_report.h>
#include <torch/csrc/jit/serialization/python_print.h>
#include <torch/csrc/utils/pybind.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tracehost::python {

namespace py = pybind11;

namespace {

bool has_grad_mode_nodes(const torch::jit::Block &block) {
  return any_node(&block, [](const torch::jit::Node &node) {
    return node.kind() == c10::Symbol::fromQualString("aten::set_grad_enabled") || is_mode(node);
  });
}

std::string function_identifier(std::string name) {
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "f_" + name : name;
}

py::tuple described(const TensorMeta &meta, const std::string &name) {
  return py::make_tuple(TensorSpec::of(meta, name), meta.requires_grad);
}

} // namespace

Concrete::Concrete(const PythonFunction &function, SpecializationRef specialization,
                   const std::vector<std::string> &names)
    : specialization_(std::move(specialization)), counters_(function.core->counters()),
      callable_(py::reinterpret_borrow<py::object>(function.callable.get())),
      name_(counters_->identity.name), where_(function.name),
      input_names_(input_names(specialization_->signature, function.binder, names)),
      sets_grad_mode_(has_grad_mode_nodes(*specialization_->program->graph().block())) {
  for (const python::Parameter &p : function.binder.parameters())
    declared_.emplace_back(utf8(p.name.get()), p.kind);
  // As in tf, `self` is not passed.
  const Node &first = signature().nodes.empty() ? Node() : signature().nodes[0];
  const bool has_self = !declared_.empty() && declared_[0].first == "self" &&
                        first.kind == Kind::atom && first.reserved[0];
  bound_ = function.instance || has_self;
  add_parameters(bound_);
}

Concrete::~Concrete() = default;

void Concrete::add_parameters(bool bound) {
  using Kind = python::Parameter::Kind;
  const auto &nodes = signature().nodes;
  const bool spreads = std::any_of(declared_.begin(), declared_.end(),
                                   [](const auto &p) { return p.second == Kind::var_positional; });
  for (std::size_t p = bound ? 1 : 0; p < declared_.size(); ++p) {
    const auto &[name, kind] = declared_[p];
    const std::size_t node = signature().subtree(p);
    if (kind == Kind::var_positional) {
      std::size_t count = 0;
      for (std::size_t i = node + 1; i < nodes[node].end; i = nodes[i].end)
        parameters_.push_back({fmt::format("{}_{}", name, count++), i, true, false});
    } else if (kind == Kind::var_keyword) {
      for (std::size_t i = node + 1; i < nodes[node].end; i = nodes[i + 1].end) {
        const Owned key(python_value(nodes[i]));
        parameters_.push_back({utf8(key.get()), i + 1, false, true});
      }
    } else {
      const bool by_place = kind != Kind::keyword;
      parameters_.push_back(
          {name, node, by_place, kind == Kind::keyword || (kind == Kind::positional && !spreads)});
    }
  }
}

py::list Concrete::arguments(const py::list &leaves, py::object unknown) const {
  Arguments given;
  for (const py::handle leaf : leaves)
    given.tensors.push_back(py::reinterpret_borrow<py::object>(leaf));
  py::list result;
  for (const Parameter &p : parameters_)
    result.append(py::make_tuple(p.name,
                                 !p.by_place ? "KEYWORD_ONLY"
                                 : p.by_name ? "POSITIONAL_OR_KEYWORD"
                                             : "POSITIONAL_ONLY",
                                 value(p.node, given, unknown)));
  return result;
}

py::object Concrete::result(const py::list &leaves) const {
  std::vector<PyObject *> objects;
  for (const py::handle leaf : leaves)
    objects.push_back(leaf.ptr());
  return py::reinterpret_steal<py::object>(
      checked(build_result(specialization_->outputs, objects)).release());
}

py::list Concrete::outputs() const {
  py::list result;
  for (const TensorMeta &meta : state().outputs)
    result.append(TensorSpec::of(meta));
  return result;
}

py::list Concrete::inputs() const {
  py::list result;
  for (std::uint32_t slot = 0; slot < signature().slots.size(); ++slot)
    result.append(described(signature().slots[slot], input_names_[slot]));
  for (std::size_t i = 0; i < state().captures; ++i)
    result.append(described(signature().captures[i].meta, signature().captures[i].path));
  return result;
}

py::list Concrete::captured_inputs() {
  Arguments none;
  fill_roots(none);
  py::list result;
  for (const py::object &tensor : captures(none))
    result.append(tensor);
  return result;
}

void Concrete::set_external_captures(const py::list &tensors) {
  if (tensors.size() != state().captures)
    raise(PyExc_ValueError, fmt::format("{} has {} captures, got {} tensors", name_,
                                        state().captures, tensors.size()));
  std::vector<py::object> given;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    given.push_back(tensors[i]);
    check_capture(i, given.back());
  }
  external_ = std::move(given);
}

py::list Concrete::run(const py::list &tensors) const {
  torch::jit::Stack stack;
  for (const py::handle t : tensors)
    stack.emplace_back(THPVariable_Unpack(t.ptr()));
  Operands operands(std::move(stack));
  python::run_program(*specialization_, operands);
  py::list result;
  for (const c10::IValue &value : operands.own())
    result.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor())));
  return result;
}

/// A copy, which nobody else changes.
std::shared_ptr<torch::jit::Graph> Concrete::named_graph() const {
  auto graph = specialization_->program->copy_graph();
  for (std::size_t slot = 0; slot < input_names_.size(); ++slot)
    graph->inputs()[slot]->setDebugName(input_names_[slot]);
  return graph;
}

std::string Concrete::code() const {
  std::vector<c10::IValue> constants;
  torch::jit::PrintDepsTable dependencies;
  torch::jit::PythonPrint printer(constants, dependencies);
  const auto graph = named_graph();
  if (graph->outputs().empty()) // the printer wants one
    graph->registerOutput(graph->insertConstant(c10::IValue()));
  const torch::jit::GraphFunction function(function_identifier(name_), graph, nullptr);
  try {
    printer.printFunction(function);
  } catch (const torch::jit::ErrorReport &) {
    raise(errors().base, fmt::format("{}: TorchScript has no statement for a loop that has a count "
                                     "of iterations and a condition. Print .graph instead.",
                                     name_));
  }
  return printer.str();
}

int Concrete::traverse(visitproc visit, void *arg) const {
  Py_VISIT(callable_.ptr());
  if (external_)
    for (const py::object &t : *external_)
      Py_VISIT(t.ptr());
  return traverse_specialization(*specialization_, visit, arg);
}

namespace {

PyObject *made_before(const PythonFunction &function, const Specialization &specialization) {
  for (const auto &[live, object] : function.concrete)
    if (live.get() == &specialization)
      return object.get();
  return nullptr;
}

} // namespace

py::object concrete_function(PythonFunction &function, const SpecializationRef &specialization,
                             const std::vector<std::string> &names, const py::object &wrap) {
  function.drop_evicted();
  if (PyObject *found = made_before(function, *specialization))
    return py::reinterpret_borrow<py::object>(found);
  py::object made = wrap(py::cast(std::make_unique<Concrete>(function, specialization, names)));
  if (PyObject *found = made_before(function, *specialization)) // by another thread meanwhile
    return py::reinterpret_borrow<py::object>(found);
  const auto list = function.core->cache().list();
  if (std::find(list->begin(), list->end(), specialization) != list->end())
    function.concrete.emplace_back(specialization, Owned(Py_NewRef(made.ptr())));
  return made;
}

void add_concrete(py::module_ &module) {
  const auto collected = [](PyHeapTypeObject *heap) {
    PyTypeObject *type = &heap->ht_type;
    type->tp_flags |= Py_TPFLAGS_HAVE_GC;
    type->tp_traverse = [](PyObject *self, visitproc visit, void *arg) {
      Py_VISIT(Py_TYPE(self));
      if (py::detail::is_holder_constructed(self))
        return py::cast<Concrete &>(py::handle(self)).traverse(visit, arg);
      return 0;
    };
  };
  py::class_<Concrete>(module, "Concrete", py::custom_type_setup(collected))
      .def("__call__", &Concrete::call)
      .def("arguments", &Concrete::arguments)
      .def("result", &Concrete::result)
      .def("run", &Concrete::run)
      .def("set_external_captures", &Concrete::set_external_captures)
      .def("captured_inputs", &Concrete::captured_inputs)
      .def_property_readonly("name", &Concrete::name)
      .def_property_readonly("inputs", &Concrete::inputs)
      .def_property_readonly("outputs", &Concrete::outputs)
      .def_property_readonly(
          "slots",
          [](const Concrete &self) { return self.specialization().signature.slots.size(); })
      .def_property_readonly("graph", &Concrete::graph)
      .def_property_readonly("code", &Concrete::code)
      // The numbers that its checks expect: where, and what.
      .def_property_readonly("checks",
                             [](const Concrete &self) {
                               std::vector<std::pair<std::string, std::string>> made;
                               for (const auto &one : self.specialization().signature.checked)
                                 made.emplace_back(one.where, one.value);
                               return made;
                             })
      .def_property_readonly(
          "grad_mode",
          [](const Concrete &self) { return self.specialization().signature.context.grad; })
      .def_property_readonly(
          "calls_python",
          [](const Concrete &self) { return self.specialization().program->calls_python(); })
      .def_property_readonly("dynamic", [](const Concrete &self) {
        return self.specialization().signature.is_dynamic();
      });
}

} // namespace tracehost::python
