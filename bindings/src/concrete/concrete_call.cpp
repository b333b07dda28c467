#include "base/checked.h"
#include "base/errors.h"
#include "base/object.h"
#include "call/context_probe.h"
#include "call/function_type.h"
#include "concrete/concrete.h"
#include "program/checks.h"
#include "pytree/arrays.h"
#include "pytree/leaf.h"
#include "pytree/pytree.h"
#include "pytree/results.h"
#include "pytree/unflatten.h"
#include "trace/tracer.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <fmt/format.h>

/// The call of a Concrete: its captures, and the run, or the body in a trace around it.

namespace tracehost::python {

namespace py = pybind11;

py::object Concrete::call(const py::args &args, const py::kwargs &kwargs) {
  Arguments given = take(args, kwargs);
  if (torch::jit::tracer::isTracing() || trace::active())
    return inlined(given);
  check_context();
  fill_roots(given);
  const auto captured = captures(given);
  const auto holders = this->holders(given);
  const auto handed_out = this->handed_out(given);
  torch::jit::Stack stack;
  stack.reserve(given.tensors.size() + captured.size());
  for (const py::object &t : given.tensors)
    stack.emplace_back(THPVariable_Unpack(t.ptr()));
  for (const py::object &t : captured)
    stack.emplace_back(THPVariable_Unpack(t.ptr()));
  check_grads(stack);
  check_sizes(stack);
  Operands operands(std::move(stack));
  try {
    python::run_program(*specialization_, operands);
  } catch (const CheckFailed &check) {
    raise(errors().value_read,
          fmt::format("{}: {}. Call the Function, which has a graph for each such value, or keep "
                      "the value in tensors.",
                      where_, told(check)));
  } catch (...) {
    set_from_failed_run(where_);
    rethrow();
  }
  return result_of(given, handed_out, holders, operands.own());
}

/// Stores, then builds the result. A list or dict of the arguments is made again for these, because
/// a ConcreteFunction takes leaves.
py::object Concrete::result_of(const Arguments &given, const std::vector<Owned> &handed_out,
                               const std::vector<Owned> &holders,
                               torch::jit::Stack &outputs) const {
  std::vector<PyObject *> objects, containers;
  for (const py::object &root : given.roots)
    objects.push_back(root.ptr());
  if (state().containers)
    containers.resize(state().containers->given.size());
  for (std::size_t i = 0; i < handed_out.size(); ++i) {
    auto &into = i + state().containers_reached < handed_out.size() ? objects : containers;
    into.push_back(handed_out[i].get());
  }
  std::vector<MadeOnce> made;
  RunValues values{specialization_->outputs, state().stored, outputs, objects, containers, made};
  if (!state().guards->store(holders, values))
    rethrow();
  return py::reinterpret_steal<py::object>(checked(build_result(values)).release());
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

/// What paths start from. Throws where such an object is gone. Never empty: without an address the
/// guards would take it that verify() has run.
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
  result.push_back(nullptr);
  return result;
}

std::vector<Owned> Concrete::holders(const Arguments &given) const {
  if (!state().rebinds)
    return {};
  if (state().containers && !state().containers->changes.empty())
    raise(errors().trace, fmt::format("{}: the body changes an argument that is a list or dict, "
                                      "which calls of the Function do. Call that.",
                                      name_));
  return there(state().guards->holders(roots(given).data()), "stores to");
}

/// Those of the result, before the run.
std::vector<Owned> Concrete::handed_out(const Arguments &given) const {
  if (!state().guards->hands_out())
    return {};
  return there(state().guards->handed_out(roots(given).data()), "returns");
}

std::vector<Owned> Concrete::there(std::vector<Owned> objects, const char *used) const {
  for (const Owned &object : objects)
    if (!object)
      raise(errors().capture,
            fmt::format("{}: an object that it {} is gone. Get a new ConcreteFunction.", name_,
                        used));
  return objects;
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
  if (state().guards->verify(roots.data()))
    take(state().guards->captures());
  else // Python values that changed do not matter here: this is that trace
    take(state().guards->current_captures(roots.data()));
  for (std::size_t i = 0; i < count; ++i)
    check_capture(i, result[i]);
  return result;
}

std::string Concrete::stale() const {
  if (state().rebinds) // a slot that each call stores to differs after each
    return {};
  Arguments none;
  fill_roots(none);
  std::vector<AtomRef> atoms;
  const auto now = state().guards->current(roots(none).data(), atoms);
  for (std::size_t i = 0; i < signature().guarded.size() && i < now.size(); ++i)
    if (!same(signature().guarded[i].node, now[i].node))
      return signature().guarded[i].path;
  return {};
}

namespace {

/// The arguments of a call, again as Python values.
template <class Arguments> struct Again {
  PyObject *tensor(const Node &node) const {
    return Py_NewRef(given.tensors[node.payload.slot].ptr());
  }
  PyObject *again(const Node &, const Node &earlier) const { return object(earlier); }
  PyObject *object(const Node &node) const {
    const auto one = given.objects.find(static_cast<std::size_t>(&node - first));
    PyObject *found =
        one != given.objects.end() ? Py_NewRef(one->second.ptr()) : python_value(node);
    if (found || PyErr_Occurred())
      return found;
    if (!gone)
      PyErr_SetString(errors().trace,
                      "an object that the ConcreteFunction was traced with is gone");
    return Py_XNewRef(gone);
  }
  const Arguments &given;
  PyObject *gone;
  const Node *first; ///< of the Signature
};

} // namespace

py::object Concrete::value(std::size_t node, const Arguments &given, const py::object &gone) const {
  Again leaves{given, gone.ptr(), signature().nodes.data()};
  Tree tree(signature().nodes, leaves);
  return py::reinterpret_steal<py::object>(checked(tree.value(node)).release());
}

/// A call in a trace: the body's ops belong to that graph.
py::object Concrete::inlined(const Arguments &given) const {
  if (external_)
    raise(errors().trace, fmt::format("{}: a ConcreteFunction with other captures than the traced "
                                      "ones can't be part of another function's graph.",
                                      name_));
  counters_->inlined.fetch_add(1, std::memory_order_relaxed);
  using Kind = python::Parameter::Kind;
  py::list args;
  py::dict kwargs;
  for (std::size_t p = 0; p < declared_.size(); ++p) {
    const py::object value = this->value(signature().subtree(p), given);
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
