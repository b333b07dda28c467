#include "arrays.h"
#include "atoms.h"
#include "concrete.h"
#include "context_probe.h"
#include "environment/gil.h"
#include "errors.h"
#include "function_type.h"
#include "results.h"
#include "trace/tracer.h"
#include "tree.h"
#include "walk.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <fmt/format.h>

#include <algorithm>

/// The call of a Concrete: arguments to tensors, captures, the run.

namespace tracehost::python {

namespace py = pybind11;

namespace {

TensorSpec spec_of(const TensorMeta &meta) {
  TensorSpec spec = TensorSpec::of(meta);
  if (meta.device.is_cpu())
    spec.device.reset();
  return spec;
}

/// For messages: of a tensor what it is compared by, else its repr, shortened.
std::string shown_value(py::handle value) {
  if (THPVariable_Check(value.ptr()))
    return spec_of(TensorMeta::of(THPVariable_Unpack(value.ptr()))).text();
  return py::cast<std::string>(
      py::module_::import("tracehost._signature").attr("_shorten").attr("repr")(value));
}

std::string shown_arguments(const py::args &args, const py::kwargs &kwargs) {
  std::string text = "(";
  for (const py::handle a : args)
    text += shown_value(a) + ", ";
  if (args.size() != 1 && args.size() != 0)
    text.resize(text.size() - 2);
  else if (args.size() == 1)
    text.pop_back();
  text += ") and kwargs: {";
  bool first = true;
  for (const auto &[name, value] : kwargs) {
    text += fmt::format("{}'{}': {}", first ? "" : ", ", py::cast<std::string>(name),
                        shown_value(value));
    first = false;
  }
  return text + "}";
}

bool refuse_arity(Unfit &why, std::string text) {
  why = {true, std::move(text)};
  return false;
}
bool refuse_value(Unfit &why, std::string text) {
  why = {false, std::move(text)};
  return false;
}

std::string shape_text(const c10::IntArrayRef sizes) {
  return fmt::format("({}{})", sizes_text(sizes), sizes.size() == 1 ? "," : "");
}

/// Classes of tensors that ops treat alike.
bool is_plain(const void *type) {
  return type == THPVariableClass || type == ParameterClass ||
         StandIns::is_class(static_cast<PyTypeObject *>(const_cast<void *>(type)));
}

/// Whether a graph that was made for `meta` is right for `object`: all that tensors are compared by
/// but requires_grad, which ops find out themselves.
bool serves(const TensorMeta &meta, PyObject *object) {
  const auto &t = *THPVariable_Unpack(object).unsafeGetTensorImpl();
  const void *type = Py_TYPE(object);
  const auto kind = [](c10::DispatchKeySet keys) {
    return keys - c10::autograd_dispatch_keyset_with_ADInplaceOrView -
           c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});
  };
  return (type == meta.type || (is_plain(type) && is_plain(meta.type))) &&
         t.dtype() == at::scalarTypeToTypeMeta(meta.dtype) && t.device() == meta.device &&
         kind(t.key_set()) == kind(meta.keys) && meta.takes(t.sizes());
}

/// A trace around the call that has some size as any takes those that this one needs as conditions.
bool sizes_are(const TensorMeta &meta, PyObject *tensor) {
  if (!trace::recording())
    return true;
  const py::tuple shape = py::reinterpret_borrow<py::object>(tensor).attr("shape");
  for (std::size_t d = 0; d < meta.sizes.size(); ++d)
    if (meta.sizes[d] != kAnySize && !py::object(shape[d]).equal(py::int_(meta.sizes[d])))
      return false;
  return true;
}

/// A trace around the call has to allow the read, too.
bool has_value(const ValueGuard &guard, const at::Tensor &t) {
  if (trace::recording())
    trace::read_values(t, "a graph for one value", true);
  const trace::Paused paused;
  return holds(guard, t);
}

class SlotSizes final : public SizeSource {
public:
  explicit SlotSizes(const std::vector<py::object> &tensors) : tensors_(tensors) {}
  std::int64_t size(std::int32_t slot, std::int32_t dimension) const override {
    return THPVariable_Unpack(tensors_[static_cast<std::size_t>(slot)].ptr())
        .unsafeGetTensorImpl()
        ->size(dimension);
  }

private:
  const std::vector<py::object> &tensors_;
};

} // namespace

std::string Concrete::shown(bool flat) const {
  std::string text = name_ + "(";
  const auto add = [&](const std::string &name) {
    text += (text.back() == '(' ? "" : ", ") + name;
  };
  if (flat)
    for (const std::string &name : input_names_)
      add(name);
  else
    for (const Parameter &p : parameters_)
      add(p.name);
  return text + ")";
}

py::object Concrete::call(const py::args &args, const py::kwargs &kwargs) {
  Arguments given;
  Unfit structured, flat;
  if (!take_structured(args, kwargs, given, structured)) {
    given = {};
    if (!take_flat(args, kwargs, given, flat))
      raise(structured.arity && flat.arity ? PyExc_TypeError : errors().signature,
            fmt::format("Binding inputs to {} failed due to `{}`. Received args: {} for signature: "
                        "{}.\nFallback to flat signature also failed due to: {}",
                        name_, structured.text, shown_arguments(args, kwargs), text(signature()),
                        flat.text));
  }
  if (torch::jit::tracer::isTracing() || trace::active())
    return inlined(given);
  check_context();
  fill_roots(given);
  const auto captured = captures(given);
  const auto holders = this->holders(given);
  torch::jit::Stack stack;
  stack.reserve(given.tensors.size() + captured.size());
  for (const py::object &t : given.tensors)
    stack.emplace_back(THPVariable_Unpack(t.ptr()));
  for (const py::object &t : captured)
    stack.emplace_back(THPVariable_Unpack(t.ptr()));
  check_grads(stack);
  try {
    run_program(stack);
  } catch (...) {
    set_from_failed_run(where_);
    rethrow();
  }
  if (!state().environment->store(holders, stack))
    rethrow();
  PyObject *made = build_result(specialization_->outputs, stack);
  if (!made)
    rethrow();
  return py::reinterpret_steal<py::object>(made);
}

void Concrete::run_program(torch::jit::Stack &stack) const {
  std::optional<py::gil_scoped_release> released;
  if (specialization_->program->long_running())
    released.emplace();
  specialization_->program->run(stack);
}

/// A graph is right for the gradients that were there, or not, at its trace.
void Concrete::check_grads(const torch::jit::Stack &inputs) const {
  for (const GradRead &read : signature().grads)
    if (const auto now = grad_state(inputs[read.input].toTensor()); now != read.state)
      raise(errors().signature,
            fmt::format("{}: {}, which the body reads, was {} at the trace, and is {}. Call "
                        "the Function, which has a graph for each.",
                        where_, grad_path(signature().input_path(read.input)), text(read.state),
                        text(now)));
}

bool Concrete::take_structured(const py::args &args, const py::kwargs &kwargs, Arguments &into,
                               Unfit &why) const {
  std::vector<py::handle> values(parameters_.size());
  std::size_t places = 0;
  while (places < parameters_.size() && parameters_[places].by_place)
    ++places;
  if (args.size() > places)
    return refuse_arity(why, "too many positional arguments");
  for (std::size_t i = 0; i < args.size(); ++i)
    values[i] = args[i];
  for (const auto &[key, value] : kwargs) {
    const std::string name = py::cast<std::string>(key);
    const auto p = std::find_if(parameters_.begin(), parameters_.end(),
                                [&](const Parameter &q) { return q.by_name && q.name == name; });
    if (p == parameters_.end())
      return refuse_arity(why, fmt::format("got an unexpected keyword argument '{}'", name));
    py::handle &place = values[static_cast<std::size_t>(p - parameters_.begin())];
    if (place)
      return refuse_arity(why, fmt::format("multiple values for argument '{}'", name));
    place = value;
  }
  into.tensors.resize(signature().slots.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i])
      return refuse_arity(why,
                          fmt::format("missing a required argument: '{}'", parameters_[i].name));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!take(parameters_[i], values[i], into, why))
      return false;
  for (const py::object &t : into.tensors)
    if (!t) // it stands in the argument that a bound method leaves out
      return refuse_value(why, "a tensor of the bound object is an argument of its own");
  return conditions_hold(into, why);
}

bool Concrete::take_flat(const py::args &args, const py::kwargs &kwargs, Arguments &into,
                         Unfit &why) const {
  const auto &names = input_names_;
  into.tensors.resize(names.size());
  if (args.size() > names.size())
    return refuse_arity(why, fmt::format("{} takes {} positional arguments, got {}.", shown(true),
                                         names.size(), args.size()));
  std::vector<py::handle> values(names.size());
  for (std::size_t i = 0; i < args.size(); ++i)
    values[i] = args[i];
  std::string unknown;
  for (const auto &[key, value] : kwargs) {
    const std::string name = py::cast<std::string>(key);
    const auto at =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size())
      unknown += (unknown.empty() ? "" : ", ") + name;
    else if (values[at])
      return refuse_arity(why, fmt::format("{} got two values for '{}'.", shown(true), name));
    else
      values[at] = value;
  }
  std::string missing;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!values[i])
      missing += (missing.empty() ? "" : ", ") + names[i];
  if (!missing.empty())
    return refuse_arity(why,
                        fmt::format("{} missing required arguments: {}.", shown(true), missing));
  if (!unknown.empty())
    return refuse_arity(
        why, fmt::format("{} got unexpected keyword arguments: {}.", shown(true), unknown));
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    if (!THPVariable_Check(values[i].ptr()))
      return refuse_arity(
          why,
          fmt::format("{}: expected argument #{}(zero-based) to be a Tensor; got {} ({}).",
                      shown(true), i, Py_TYPE(values[i].ptr())->tp_name, shown_value(values[i])));
    if (!take_tensor(i, py::reinterpret_borrow<py::object>(values[i]), into, why))
      return false;
  }
  return conditions_hold(into, why);
}

bool Concrete::take(const Parameter &parameter, py::handle value, Arguments &into,
                    Unfit &why) const {
  const auto &nodes = signature().nodes;
  const Node &top = nodes[parameter.node];
  if (!top.is_container())
    return take_leaf(parameter, parameter.node, value, into, why);
  bool changed = false;
  const auto plain = has_arrays()
                         ? py::reinterpret_steal<py::object>(with_tensors(value.ptr(), changed))
                         : py::reinterpret_borrow<py::object>(value);
  std::vector<PyObject *> types;
  for (std::size_t i = parameter.node; i < top.end; ++i)
    if (nodes[i].reserved[0] == kTypedRoot)
      types.push_back(static_cast<const PyAtom *>(nodes[i].payload.atom)->user_type());
  into.values.expect(std::move(types));
  const FlatValue flat = flatten(plain.ptr(), Purpose::argument, &into.values);
  const std::vector<Node> &given = flat.nodes;
  const auto cast_problem = [&] {
    return refuse_value(why,
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
        tensor = py::module_::import("tracehost._signature")
                     .attr("_fit_tensor")(TensorSpec::of(meta), value, parameter.name, false);
      } catch (py::error_already_set &e) {
        if (!e.matches(errors().signature))
          throw;
        return refuse_value(why, py::cast<std::string>(py::str(e.value())));
      }
    }
    return take_tensor(node.payload.slot, std::move(tensor), into, why);
  }
  if (node.reserved[0])
    into.objects[at] = py::reinterpret_borrow<py::object>(value);
  const bool same =
      node.kind == Kind::again ? is_again(node, value, into) : holds(node, value.ptr());
  if (!same)
    return refuse_value(why,
                        fmt::format("argument '{}': can not cast {} to Literal[{}]", parameter.name,
                                    shown_value(value), text(signature(), node)));
  return true;
}

/// Whether it is what was given in the place where the trace met that object first.
bool Concrete::is_again(const Node &node, py::handle value, const Arguments &given) const {
  const std::size_t first = node.payload.again.node;
  const auto found = given.objects.find(first);
  if (found != given.objects.end())
    return found->second.is(value);
  return py::reinterpret_steal<py::object>(python_value(signature().nodes[first])).is(value);
}

bool Concrete::take_tensor(std::uint32_t slot, py::object tensor, Arguments &into,
                           Unfit &why) const {
  py::object &place = into.tensors[slot];
  if (place && place.is(tensor))
    return true;
  if (place)
    return refuse_value(why, fmt::format("'{}' was traced with one tensor in several places, and "
                                         "is given different ones",
                                         input_names_[slot]));
  if (!fits(slot, tensor, why))
    return false;
  place = std::move(tensor);
  return true;
}

bool Concrete::fits(std::uint32_t slot, py::handle tensor, Unfit &why) const {
  const TensorMeta &meta = signature().slots[slot];
  const at::Tensor &t = THPVariable_Unpack(tensor.ptr());
  const bool strides = !signature().reads_strides || t.layout() != at::kStrided ||
                       t.strides() == c10::IntArrayRef(meta.strides) ||
                       (meta.relaxed && meta.contiguous && t.is_contiguous());
  const bool leaf = !signature().reads_leaf || t.is_leaf() == meta.is_leaf;
  if (serves(meta, tensor.ptr()) && strides && leaf && sizes_are(meta, tensor.ptr()))
    return true;
  const std::string &name = input_names_[slot];
  if (t.layout() == at::kStrided && !meta.takes(t.sizes()))
    return refuse_value(
        why, fmt::format("Can not cast {} to {}. Tensor '{}' is not compatible with the shape this "
                         "function was traced with. Expected shape {}, but got shape {}. Request "
                         "it with a TensorSpec that has None for sizes that differ.",
                         spec_of(TensorMeta::of(t)).text(), spec_of(meta).text(), name,
                         shape_text(meta.sizes), shape_text(t.sizes())));
  const TensorMeta given = TensorMeta::of(t, Py_TYPE(tensor.ptr()), Py_TYPE(tensor.ptr())->tp_name);
  if (!strides || !leaf)
    return refuse_value(why, fmt::format("'{}': the body read {} of it, which was another at the "
                                         "trace",
                                         name, leaf ? "strides" : "is_leaf"));
  return refuse_value(
      why, fmt::format("Can not cast {} to {} of '{}'", given.text(), meta.text(), name));
}

bool Concrete::conditions_hold(const Arguments &given, Unfit &why) const {
  const SlotSizes sizes(given.tensors);
  for (const SizeCondition &condition : signature().conditions)
    if (!tracehost::holds(condition, sizes))
      return refuse_value(why, fmt::format("the graph is for sizes where {} ({})",
                                           text(condition, signature()), condition.where));
  for (const ValueGuard &guard : signature().values)
    if (guard.input < given.tensors.size() &&
        !has_value(guard, THPVariable_Unpack(given.tensors[guard.input].ptr())))
      return refuse_value(why, fmt::format("the graph is for {} = {} ({})",
                                           signature().input_path(guard.input), text(guard),
                                           guard.where));
  return true;
}

void Concrete::fill_roots(Arguments &into) const {
  for (std::size_t i = 0; i < signature().nodes.size(); ++i) {
    const Node &node = signature().nodes[i];
    if (node.kind != Kind::atom || !node.reserved[0])
      continue;
    const auto given = into.objects.find(i);
    into.roots.push_back(given != into.objects.end()
                             ? given->second
                             : py::reinterpret_steal<py::object>(python_value(node)));
  }
}

/// What paths start from. Throws where such an object is gone.
std::vector<PyObject *> Concrete::roots(const Arguments &given) const {
  std::vector<PyObject *> result;
  for (const py::object &root : given.roots) {
    if (!root)
      raise(errors().capture,
            fmt::format("{}: an object that it was traced with is gone, and its tensors with it. "
                        "Keep it, or get a new ConcreteFunction.",
                        name_));
    result.push_back(root.ptr());
  }
  return result;
}

std::vector<Owned> Concrete::holders(const Arguments &given) const {
  if (!state().rebinds)
    return {};
  auto result = state().environment->holders(roots(given).data());
  for (const Owned &holder : result)
    if (!holder)
      raise(errors().capture,
            fmt::format("{}: an object that it stores a tensor in is gone. Get a new "
                        "ConcreteFunction.",
                        name_));
  return result;
}

std::vector<py::object> Concrete::captures(const Arguments &given) const {
  if (external_)
    return *external_;
  const std::size_t count = state().captures;
  std::vector<py::object> result;
  if (count == 0)
    return result;
  const std::vector<PyObject *> roots = this->roots(given);
  const auto take = [&](const auto &tensors) {
    for (std::size_t i = 0; i < count; ++i)
      result.push_back(py::reinterpret_borrow<py::object>(tensors[i]));
  };
  if (state().environment->verify(roots.data()))
    take(state().environment->captures());
  else // Python values that changed do not matter here: this is that trace
    take(state().environment->current_captures(roots.data()));
  for (std::size_t i = 0; i < count; ++i)
    check_capture(i, result[i]);
  return result;
}

std::string Concrete::stale() const {
  Arguments none;
  fill_roots(none);
  std::vector<AtomRef> atoms;
  const auto now = state().environment->current(roots(none).data(), atoms);
  for (std::size_t i = 0; i < signature().watched.size() && i < now.size(); ++i)
    if (!same(signature().watched[i].node, now[i].node))
      return signature().watched[i].path;
  return {};
}

void Concrete::check_capture(std::size_t index, py::handle tensor) const {
  const CaptureSpec &spec = signature().captures[index];
  const bool is_tensor = tensor && THPVariable_Check(tensor.ptr());
  if (is_tensor && serves(spec.meta, tensor.ptr()))
    return;
  const std::string now =
      is_tensor ? "is " + TensorMeta::of(THPVariable_Unpack(tensor.ptr()), Py_TYPE(tensor.ptr()),
                                         Py_TYPE(tensor.ptr())->tp_name)
                              .text()
      : tensor ? fmt::format("is a {}", Py_TYPE(tensor.ptr())->tp_name)
               : "can't be found";
  raise(errors().capture, fmt::format("{}: the captured tensor {} was {} at the trace, and {} now. "
                                      "Get a new ConcreteFunction.",
                                      name_, spec.path, spec.meta.text(), now));
}

/// Ops find grad and inference mode, and whether they must be deterministic, when they run; the
/// rest was decided at the trace.
void Concrete::check_context() const {
  const Context &traced = signature().context;
  const Context now = probe_context();
  if (traced == now)
    return;
  Context expected = traced;
  if (!sets_grad_mode_) {
    expected.grad = now.grad;
    expected.inference = now.inference;
    if (traced.inference != now.inference) { // keys that it switches
      expected.included = now.included;
      expected.excluded = now.excluded;
    }
  }
  expected.deterministic = now.deterministic;
  const auto differ = differences(expected, now);
  if (differ.empty())
    return;
  raise(errors().signature,
        fmt::format("{} was traced with {} {}, and is called with {}. Request another "
                    "ConcreteFunction in that context.",
                    name_, differ[0].field, differ[0].before, differ[0].after));
}

namespace {

/// The arguments of a call, again as Python values.
template <class Arguments> struct Again {
  PyObject *tensor(const Node &node) const {
    return Py_NewRef(given.tensors[node.payload.slot].ptr());
  }
  PyObject *object(const Node &node) const {
    const auto one = given.objects.find(static_cast<std::size_t>(&node - first));
    PyObject *found =
        one != given.objects.end() ? Py_NewRef(one->second.ptr()) : python_value(node);
    if (!found && !PyErr_Occurred())
      PyErr_SetString(errors().trace,
                      "an object that the ConcreteFunction was traced with is gone");
    return found;
  }
  const Arguments &given;
  const Node *first; ///< of the Signature
};

} // namespace

/// A call inside of a trace: the body's ops belong to that graph.
py::object Concrete::inlined(const Arguments &given) const {
  if (external_)
    raise(errors().trace, fmt::format("{}: a ConcreteFunction with other captures than the traced "
                                      "ones can't be part of another function's graph.",
                                      name_));
  counters_->inlined.fetch_add(1, std::memory_order_relaxed);
  using Kind = python::Parameter::Kind;
  Again leaves{given, signature().nodes.data()};
  Tree tree(signature().nodes, leaves);
  py::list args;
  py::dict kwargs;
  for (std::size_t p = 0; p < declared_.size(); ++p) {
    std::size_t at = signature().subtree(p);
    const auto value = py::reinterpret_steal<py::object>(tree.value(at));
    if (!value)
      rethrow();
    const auto &[name, kind] = declared_[p];
    if (kind == Kind::var_positional)
      for (const py::handle item : value)
        args.append(item);
    else if (kind == Kind::var_keyword)
      kwargs.attr("update")(value);
    else if (kind == Kind::keyword)
      kwargs[py::str(name)] = value;
    else
      args.append(value);
  }
  return callable_(*py::tuple(args), **kwargs);
}

} // namespace tracehost::python
