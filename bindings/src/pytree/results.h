#pragma once

#include "base/object.h"
#include "program/output_spec.h"
#include "pytree/pytree.h"

#include <ATen/core/stack.h>
#include <Python.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// A Function's result as an OutputSpec, and back. Requires for all: GIL held.

namespace tracehost::python {

/// Which objects a result may have.
struct Returnable {
  std::span<PyObject *const> given; ///< arguments, or what is in them: later calls return theirs
  std::span<PyObject *const> containers = {}; ///< lists and dicts among the arguments
  ReachedObjects *reached =
      nullptr; ///< what the body has found outside (pytree/pytree.h); null: nothing
  /// Tensors that the body has made, with attributes of their own; empty: none.
  std::function<bool(PyObject *)> has_attributes;
};

/// Describes what the body returned or stored, to which the caller has one reference; `tensors`
/// gets its distinct tensors in order. `made`: of all trees of the trace; it is as before where
/// this throws. Throws TypeError for an object that a later call could not make again.
OutputSpec describe_result(PyObject *result, const std::string &function,
                           std::vector<Owned> &tensors, const Returnable &objects,
                           MadeObjects &made);
/// The same for a result alone, without stores.
OutputSpec describe_result(PyObject *result, const std::string &function,
                           std::vector<Owned> &tensors, const Returnable &objects);

/// By tree: whether it has what was first met at that place.
std::vector<bool> trees_with(std::span<OutputSpec *const> trees, const MadeObjects::Made &place);
[[noreturn]] void reject_held(PyObject *object, const std::string &function);
/// Marks what other trees have as well. `trees`: by their numbers.
void link(std::span<OutputSpec *const> trees);
/// By tree: whether it is one of `differ`, or has an object that is in one of these.
std::vector<bool> linked(std::span<OutputSpec *const> trees, std::vector<bool> differ);

/// Whether some of its numbers are computed by the graph.
bool returns_numbers(const OutputSpec &spec);

/// How `body`'s result, whose tensors are `tensors`, differs from what a graph's would be, but for
/// what its tensors hold: `output[1]: 3 in the graph, 4 in the body`; empty: not. Then `aligned`
/// has the tensors in the order of `graph`.
std::string difference(const OutputSpec &graph, const OutputSpec &body,
                       const std::vector<Owned> &tensors, std::vector<at::Tensor> &aligned);

/// What one run has made that several of its trees have, or one has more than once.
struct MadeOnce {
  std::uint32_t tree, node;
  Owned object;
};

/// The values of one run: its result, which is tree 0, and what it stores.
///
/// Requires: GIL held.
struct RunValues {
  const OutputSpec &result;
  std::span<const OutputSpec> stored; ///< trees from 1 on
  torch::jit::Stack &outputs;
  /// Of the call, by their numbers at the trace; where they are not known, empty.
  std::span<PyObject *const> given = {};
  /// Likewise; if empty or null, they are made again.
  std::span<PyObject *const> containers = {};
  std::vector<MadeOnce> &made;

  const OutputSpec &tree(std::uint32_t number) const {
    return number == 0 ? result : stored[number - 1];
  }
};
/// A new reference, or null with a Python error set. The result, which is built last, consumes the
/// outputs.
PyObject *build_result(RunValues &values);
PyObject *build_stored(RunValues &values, std::uint32_t tree);
/// The same structure with other objects in place of its tensors.
PyObject *build_result(const OutputSpec &spec, const std::vector<PyObject *> &in_place_of_tensors);

} // namespace tracehost::python
