#include "base/errors.h"
#include "concrete/concrete.h"
#include "pytree/arrays.h"
#include "pytree/leaf.h"
#include "pytree/pytree.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

/// What the call of a Concrete is given, as the tensors of its graph: by the parameters of the
/// function, else flat, by input_names.

namespace tracehost::python {

namespace py = pybind11;

namespace {

/// For messages: of a tensor what it is compared by, else its repr, shortened.
std::string shown(py::handle value) {
  if (THPVariable_Check(value.ptr()))
    return spec_of(TensorMeta::of(THPVariable_Unpack(value.ptr()))).text();
  return py::cast<std::string>(
      py::module_::import("tracehost._arguments.signature").attr("_shorten").attr("repr")(value));
}

std::string shown(const py::args &args, const py::kwargs &kwargs) {
  std::vector<std::string> given, named;
  for (const py::handle a : args)
    given.push_back(shown(a));
  for (const auto &[name, value] : kwargs)
    named.push_back(fmt::format("'{}': {}", py::cast<std::string>(name), shown(value)));
  return fmt::format("({}{}) and kwargs: {{{}}}", fmt::join(given, ", "),
                     given.size() == 1 ? "," : "", fmt::join(named, ", "));
}

} // namespace

std::string Concrete::shown_flat() const {
  return fmt::format("{}({})", name_, fmt::join(input_names_, ", "));
}

Concrete::Arguments Concrete::take(const py::args &args, const py::kwargs &kwargs) const {
  std::string why[2];
  bool binds[2] = {};
  for (const bool flat : {false, true}) {
    Arguments given;
    Values values;
    why[flat] = bind(flat, args, kwargs, values);
    if (!why[flat].empty())
      continue;
    binds[flat] = true;
    why[flat] = take_values(flat, values, given);
    if (why[flat].empty())
      return given;
  }
  if (!binds[false] && binds[true]) // a call of the flat form, but for the tensor that it names
    raise(errors().signature, fmt::format("{}: {}", shown_flat(), why[true]));
  std::string message =
      fmt::format("Binding inputs to {} failed due to `{}`. Received args: {} for signature: {}.",
                  name_, why[0], shown(args, kwargs), text(signature()));
  if (why[1] != why[0])
    message += "\nFallback to flat signature also failed due to: " + why[1];
  raise(binds[false] ? errors().signature : PyExc_TypeError, message);
}

/// A value for each parameter.
std::string Concrete::bind(bool flat, const py::args &args, const py::kwargs &kwargs,
                           Values &values) const {
  const std::size_t count = flat ? input_names_.size() : parameters_.size();
  const auto name_of = [&](std::size_t i) -> const std::string & {
    return flat ? input_names_[i] : parameters_[i].name;
  };
  std::size_t places = 0;
  while (places < count && (flat || parameters_[places].by_place))
    ++places;
  if (args.size() > places)
    return flat ? fmt::format("{} takes {} positional arguments, got {}.", shown_flat(), count,
                              args.size())
                : "too many positional arguments";
  values.assign(args.begin(), args.end());
  values.resize(count);
  std::vector<std::string> unknown, missing;
  for (const auto &[key, value] : kwargs) {
    const std::string name = py::cast<std::string>(key);
    std::size_t at = 0;
    while (at < count && !((flat || parameters_[at].by_name) && name_of(at) == name))
      ++at;
    if (at == count)
      unknown.push_back(name);
    else if (values[at])
      return flat ? fmt::format("{} got two values for '{}'.", shown_flat(), name)
                  : fmt::format("multiple values for argument '{}'", name);
    else
      values[at] = value;
  }
  if (!unknown.empty())
    return flat ? fmt::format("{} got unexpected keyword arguments: {}.", shown_flat(),
                              fmt::join(unknown, ", "))
                : fmt::format("got an unexpected keyword argument '{}'", unknown[0]);
  for (std::size_t i = 0; i < count; ++i)
    if (!values[i])
      missing.push_back(name_of(i));
  if (missing.empty())
    return {};
  return flat ? fmt::format("{} missing required arguments: {}.", shown_flat(),
                            fmt::join(missing, ", "))
              : fmt::format("missing a required argument: '{}'", missing[0]);
}

std::string Concrete::take_values(bool flat, const Values &values, Arguments &into) const {
  into.tensors.resize(signature().slots.size());
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    std::string why;
    if (!flat)
      why = take_parameter(parameters_[i], values[i], into);
    else if (THPVariable_Check(values[i].ptr()))
      why = take_tensor(i, py::reinterpret_borrow<py::object>(values[i]), into);
    else
      why = fmt::format("{}: expected argument #{}(zero-based) to be a Tensor; got {} ({}).",
                        shown_flat(), i, Py_TYPE(values[i].ptr())->tp_name, shown(values[i]));
    if (!why.empty())
      return why;
  }
  for (const py::object &t : into.tensors)
    if (!t) // it stands in the argument that a bound method leaves out
      return "a tensor of the bound object is an argument of its own";
  return failed_condition(into);
}

std::string Concrete::take_parameter(const Parameter &parameter, py::handle value,
                                     Arguments &into) const {
  const auto &nodes = signature().nodes;
  const Node &top = nodes[parameter.node];
  if (!top.is_container())
    return take_leaf(parameter, parameter.node, value, into);
  const Owned plain = with_tensors(value.ptr());
  std::vector<PyObject *> types;
  for (std::size_t i = parameter.node; i < top.end; ++i)
    if (nodes[i].reserved[0] == kTypedRoot)
      types.push_back(static_cast<const PyAtom *>(nodes[i].payload.atom)->user_type());
  into.values.expect(std::move(types));
  const FlatValue flat = flatten(plain.get(), Purpose::argument, &into.values);
  const std::vector<Node> &given = flat.nodes;
  const auto cast_problem = [&] {
    return fmt::format("argument '{}': can not cast {} to what was traced, {}", parameter.name,
                       shown(value), text(signature(), top));
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
    } else if (std::string why = take_leaf(parameter, at, object, into); !why.empty()) {
      return why;
    }
  }
  return {};
}

std::string Concrete::take_leaf(const Parameter &parameter, std::size_t at, py::handle value,
                                Arguments &into) const {
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
        return py::cast<std::string>(py::str(e.value()));
      }
    }
    return take_tensor(node.payload.slot, std::move(tensor), into);
  }
  if (node.reserved[0])
    into.objects[at] = py::reinterpret_borrow<py::object>(value);
  const bool same = node.kind == Kind::alias         ? is_again(node, value, into)
                    : node.reserved[0] == kAlikeRoot ? is_traced(node, value)
                                                     : holds(node, value.ptr());
  return same ? std::string()
              : fmt::format("argument '{}': can not cast {} to Literal[{}]", parameter.name,
                            shown(value), text(signature(), node));
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

std::string Concrete::take_tensor(std::uint32_t slot, py::object tensor, Arguments &into) const {
  py::object &place = into.tensors[slot];
  if (place && place.is(tensor))
    return {};
  if (place)
    return fmt::format("'{}' was traced with one tensor in several places, and is given different "
                       "ones",
                       input_names_[slot]);
  std::string why = misfit(slot, tensor);
  place = std::move(tensor);
  return why;
}

} // namespace tracehost::python
