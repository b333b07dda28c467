#include "base/errors.h"
#include "call/python_trace.h"
#include "numbers/traced_number.h"
#include "pytree/container.h"
#include "pytree/results.h"

#include "trace/tracer.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <algorithm>

/// What a trace does about lists and dicts among the arguments (argument_containers.h).

namespace tracehost::python {

void PythonTrace::reject_change(std::size_t parameter) {
  trace::reject(trace::Rejection::trace,
                fmt::format("{} changes its argument '{}' in a way that later calls can't repeat. "
                            "Change a copy, and return it.",
                            function_.name, function_.parameters->names[parameter]));
}

/// What the body's result may have besides new values.
Returnable PythonTrace::returnable() {
  containers_before_ = containers_ ? containers_->objects() : std::vector<PyObject *>();
  reached_ = {[this](PyObject *object) { return reach(object); }, {}, {}};
  return known_objects();
}

Returnable PythonTrace::known_objects() {
  return {flattened_.roots, containers_before_, &reached_,
          [this](PyObject *tensor) { return has_attributes_of_a_call(tensor); }};
}

/// A container is taken apart if everything in it can be made again.
ReachedObjects::As PythonTrace::reach(PyObject *object) const {
  using As = ReachedObjects::As;
  if (!recorder_->paths().knows(object))
    return As::none;
  const auto has_parts = [](PyObject *of) {
    const auto type = container_type(of);
    return type && type->form() != Form::mapping ? As::parts : As::whole;
  };
  if (has_parts(object) == As::whole)
    return As::whole;
  ReachedObjects inner{
      [&](PyObject *of) { return recorder_->paths().knows(of) ? has_parts(of) : As::none; },
      {},
      {}};
  std::vector<Owned> tensors;
  try {
    describe_result(object, function_.name, tensors,
                    {flattened_.roots, containers_before_, &inner, {}});
  } catch (const python_error &) {
    return As::whole;
  }
  return As::parts;
}

/// By the numbers that a result has for them.
std::vector<PyObject *> PythonTrace::given_at_trace() const {
  std::vector<PyObject *> result = flattened_.roots;
  const auto &reached = reached_.objects;
  result.insert(result.end(), reached.begin(), reached.end());
  return result;
}

std::vector<PyObject *> PythonTrace::containers_at_trace() const {
  std::vector<PyObject *> result = containers_before_;
  const auto &reached = reached_.containers;
  result.insert(result.end(), reached.begin(), reached.end());
  return result;
}

/// Behind the body. Only lists and dicts may have changed.
void PythonTrace::compare_containers() {
  if (!containers_ || !containers_->compare())
    return check_arguments_unchanged();
  using Container = ArgumentContainers::Container;
  containers_->put(&Container::before);
  const auto again = c10::make_scope_exit([&] { containers_->put(&Container::after); });
  check_arguments_unchanged();
}

void PythonTrace::repeat_changes(MadeObjects &made, BodyResult &result) {
  if (!containers_)
    return;
  for (ArgumentContainers::Container &container : containers_->all())
    if (container.after)
      repeat_change(container, made, result);
}

/// Makes the new values outputs of the graph.
void PythonTrace::repeat_change(ArgumentContainers::Container &container, MadeObjects &made,
                                BodyResult &result) {
  auto found = containers_->change(container);
  const std::uint32_t tree =
      found ? as_outputs(found->second.get(), function_.name, made, result.tensors) : 0;
  if (!tree)
    reject_change(std::min(container.path.argument, function_.parameters->names.size() - 1));
  auto &[change, values] = *found;
  change.values = tree;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values.get()); ++i) // the container, and its copy
    made.add_references(PyTuple_GET_ITEM(values.get(), i), 2);
  if (!uses_)
    uses_.reset(new ContainerUses);
  uses_->changes.push_back(std::move(change));
}

/// Puts what the caller sees in place of what the body stored in containers of the arguments.
void PythonTrace::change_as_eager(RunValues &values, const std::vector<bool> &differ) {
  for (std::size_t i = 0; uses_ && i < uses_->changes.size(); ++i) {
    const ContainerChange &change = uses_->changes[i];
    if (!differ[change.values])
      continue;
    const Owned built(build_stored(values, change.values));
    for (const ArgumentContainers::Container &container : containers_->all()) {
      PyObject *object = container.object.get();
      if (built && is_at(container.path, change.path) &&
          (!python::restore(object, container.before.get()) || !apply(change, object, built.get())))
        rethrow();
    }
    if (!built)
      rethrow();
  }
}

/// The result's containers are numbered among themselves from here on: those of the arguments
/// first, then those that the body has reached.
void PythonTrace::note_given(BodyResult &result) {
  const std::size_t before = containers_before_.size();
  std::vector<std::size_t> used; // by their numbers among the arguments
  const auto all = trees(result);
  for (const OutputSpec *tree : all)
    for (const Node &node : tree->nodes)
      if (node.is_container() && node.reserved[1] && node.reserved[1] <= before)
        used.push_back(node.reserved[1] - 1U);
  for (OutputSpec *tree : all)
    for (Node &node : tree->nodes) {
      if (!node.is_container() || !node.reserved[1])
        continue;
      const std::size_t number = node.reserved[1] - 1U;
      const auto place = number < before
                             ? std::find(used.begin(), used.end(), number) - used.begin()
                             : std::ssize(used) + static_cast<std::ptrdiff_t>(number - before);
      node.reserved[1] = place < 255 ? static_cast<std::uint8_t>(place + 1) : 0; // it is a byte
    }
  if (!used.empty() && !uses_)
    uses_.reset(new ContainerUses);
  for (const std::size_t number : used)
    uses_->given.push_back(copy(containers_->all()[number].path));
}

} // namespace tracehost::python
