#include "base/errors.h"
#include "concrete/concrete.h"
#include "pytree/arrays.h"
#include "pytree/leaf.h"
#include "pytree/pytree.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

/// What the call of a Concrete is given, as the tensors of its graph: by the parameters of the
/// function, else flat, by input_names.

namespace tracehost::python {

namespace py = pybind11;

namespace {

/// For messages: of a tensor what it is compared by, else its repr, shortened.
std::string shown_value(py::handle value) {
  if (THPVariable_Check(value.ptr()))
    return spec_of(TensorMeta::of(THPVariable_Unpack(value.ptr()))).text();
  return py::cast<std::string>(
      py::module_::import("tracehost._arguments.signature").attr("_shorten").attr("repr")(value));
}

std::string shown_arguments(const py::args &args, const py::kwargs &kwargs) {
  std::vector<std::string> given, named;
  for (const py::handle a : args)
    given.push_back(shown_value(a));
  for (const auto &[name, value] : kwargs)
    named.push_back(fmt::format("'{}': {}", py::cast<std::string>(name), shown_value(value)));
  return fmt::format("({}{}) and kwargs: {{{}}}", fmt::join(given, ", "),
                     given.size() == 1 ? "," : "", fmt::join(named, ", "));
}

bool reject_arity(Unfit &why, std::string text) {
  why = {true, std::move(text)};
  return false;
}

} // namespace

Concrete::Arguments Concrete::take(const py::args &args, const py::kwargs &kwargs) const {
  Unfit structured, flat;
  if (Arguments given; take_structured(args, kwargs, given, structured))
    return given;
  if (Arguments given; take_flat(args, kwargs, given, flat))
    return given;
  raise(structured.arity && flat.arity ? PyExc_TypeError : errors().signature,
        fmt::format("Binding inputs to {} failed due to `{}`. Received args: {} for signature: "
                    "{}.\nFallback to flat signature also failed due to: {}",
                    name_, structured.text, shown_arguments(args, kwargs), text(signature()),
                    flat.text));
}

bool Concrete::take_structured(const py::args &args, const py::kwargs &kwargs, Arguments &into,
                               Unfit &why) const {
  std::vector<py::handle> values(parameters_.size());
  std::size_t places = 0;
  while (places < parameters_.size() && parameters_[places].by_place)
    ++places;
  if (args.size() > places)
    return reject_arity(why, "too many positional arguments");
  for (std::size_t i = 0; i < args.size(); ++i)
    values[i] = args[i];
  for (const auto &[key, value] : kwargs) {
    const std::string name = py::cast<std::string>(key);
    const auto p = std::find_if(parameters_.begin(), parameters_.end(),
                                [&](const Parameter &q) { return q.by_name && q.name == name; });
    if (p == parameters_.end())
      return reject_arity(why, fmt::format("got an unexpected keyword argument '{}'", name));
    py::handle &place = values[static_cast<std::size_t>(p - parameters_.begin())];
    if (place)
      return reject_arity(why, fmt::format("multiple values for argument '{}'", name));
    place = value;
  }
  into.tensors.resize(signature().slots.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i])
      return reject_arity(why,
                          fmt::format("missing a required argument: '{}'", parameters_[i].name));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!take_parameter(parameters_[i], values[i], into, why))
      return false;
  for (const py::object &t : into.tensors)
    if (!t) // it stands in the argument that a bound method leaves out
      return reject_value(why, "a tensor of the bound object is an argument of its own");
  return conditions_hold(into, why);
}

bool Concrete::take_flat(const py::args &args, const py::kwargs &kwargs, Arguments &into,
                         Unfit &why) const {
  const auto &names = input_names_;
  into.tensors.resize(names.size());
  if (args.size() > names.size())
    return reject_arity(why, fmt::format("{} takes {} positional arguments, got {}.", shown_flat(),
                                         names.size(), args.size()));
  std::vector<py::handle> values(names.size());
  for (std::size_t i = 0; i < args.size(); ++i)
    values[i] = args[i];
  std::vector<std::string> unknown, missing;
  for (const auto &[key, value] : kwargs) {
    const std::string name = py::cast<std::string>(key);
    const auto at =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size())
      unknown.push_back(name);
    else if (values[at])
      return reject_arity(why, fmt::format("{} got two values for '{}'.", shown_flat(), name));
    else
      values[at] = value;
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!values[i])
      missing.push_back(names[i]);
  if (!missing.empty())
    return reject_arity(why, fmt::format("{} missing required arguments: {}.", shown_flat(),
                                         fmt::join(missing, ", ")));
  if (!unknown.empty())
    return reject_arity(why, fmt::format("{} got unexpected keyword arguments: {}.", shown_flat(),
                                         fmt::join(unknown, ", ")));
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    if (!THPVariable_Check(values[i].ptr()))
      return reject_arity(
          why,
          fmt::format("{}: expected argument #{}(zero-based) to be a Tensor; got {} ({}).",
                      shown_flat(), i, Py_TYPE(values[i].ptr())->tp_name, shown_value(values[i])));
    if (!take_tensor(i, py::reinterpret_borrow<py::object>(values[i]), into, why))
      return false;
  }
  return conditions_hold(into, why);
}

bool Concrete::take_parameter(const Parameter &parameter, py::handle value, Arguments &into,
                              Unfit &why) const {
  const auto &nodes = signature().nodes;
  const Node &top = nodes[parameter.node];
  if (!top.is_container())
    return take_leaf(parameter, parameter.node, value, into, why);
  const Owned plain = with_tensors(value.ptr());
  std::vector<PyObject *> types;
  for (std::size_t i = parameter.node; i < top.end; ++i)
    if (nodes[i].reserved[0] == kTypedRoot)
      types.push_back(static_cast<const PyAtom *>(nodes[i].payload.atom)->user_type());
  into.values.expect(std::move(types));
  const FlatValue flat = flatten(plain.get(), Purpose::argument, &into.values);
  const std::vector<Node> &given = flat.nodes;
  const auto cast_problem = [&] {
    return reject_value(why,
                        fmt::format("argument '{}': can not cast {} to what was traced, {}",
                                    parameter.name, shown_value(value), text(signature(), top)));
  };
  if (given.size() != top.end - parameter.node)
    return cast_problem();
  std::size_t next = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::size_t at = parameter.node + i;
    const bool tensor = given[i].kind == Kind::tensor;
    PyObject *object = tensor ? flat.tensors[given[i].payload.slot] : flat.objects[next++];
    if (given[i].is_container() || nodes[at].is_container()) {
      if (given[i].kind != nodes[at].kind || given[i].end - i != nodes[at].end - at ||
          (given[i].has_atom() && !given[i].payload.atom->same(*nodes[at].payload.atom)))
        return cast_problem();
    } else if (given[i].kind == Kind::absent || nodes[at].kind == Kind::absent) {
      if (given[i].kind != nodes[at].kind)
        return cast_problem();
    } else if (!take_leaf(parameter, at, object, into, why)) {
      return false;
    }
  }
  return true;
}

bool Concrete::take_leaf(const Parameter &parameter, std::size_t at, py::handle value,
                         Arguments &into, Unfit &why) const {
  const Node &node = signature().nodes[at];
  if (node.kind == Kind::tensor) {
    auto tensor = py::reinterpret_borrow<py::object>(value);
    if (!THPVariable_Check(value.ptr())) {
      const TensorMeta &meta = signature().slots[node.payload.slot];
      try {
        tensor = py::module_::import("tracehost._arguments.signature")
                     .attr("_fit_tensor")(TensorSpec::of(meta), value, parameter.name, false);
      } catch (py::error_already_set &e) {
        if (!e.matches(errors().signature))
          throw;
        return reject_value(why, py::cast<std::string>(py::str(e.value())));
      }
    }
    return take_tensor(node.payload.slot, std::move(tensor), into, why);
  }
  if (node.reserved[0])
    into.objects[at] = py::reinterpret_borrow<py::object>(value);
  const bool same = node.kind == Kind::alias         ? is_again(node, value, into)
                    : node.reserved[0] == kAlikeRoot ? is_traced(node, value)
                                                     : holds(node, value.ptr());
  if (!same)
    return reject_value(why,
                        fmt::format("argument '{}': can not cast {} to Literal[{}]", parameter.name,
                                    shown_value(value), text(signature(), node)));
  return true;
}

/// Whether it is the object of the trace: what a body reads of objects, a ConcreteFunction does not
/// compare.
bool Concrete::is_traced(const Node &node, py::handle value) {
  return py::reinterpret_steal<py::object>(python_value(node)).is(value);
}

/// Whether it is what was given in the place where the trace met that object first.
bool Concrete::is_again(const Node &node, py::handle value, const Arguments &given) const {
  const std::size_t first = node.payload.alias.node;
  const auto found = given.objects.find(first);
  return found != given.objects.end() ? found->second.is(value)
                                      : is_traced(signature().nodes[first], value);
}

bool Concrete::take_tensor(std::uint32_t slot, py::object tensor, Arguments &into,
                           Unfit &why) const {
  py::object &place = into.tensors[slot];
  if (place && place.is(tensor))
    return true;
  if (place)
    return reject_value(why, fmt::format("'{}' was traced with one tensor in several places, and "
                                         "is given different ones",
                                         input_names_[slot]));
  if (!fits(slot, tensor, why))
    return false;
  place = std::move(tensor);
  return true;
}

} // namespace tracehost::python
