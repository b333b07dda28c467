#pragma once

#include "base/object.h"
#include "program/output_spec.h"

#include <ATen/core/stack.h>
#include <Python.h>

#include <span>
#include <vector>

/// A Function's result as an OutputSpec, and back. Requires for all: GIL held.

namespace tracehost::python {

struct ReachedObjects;

/// Which objects a result may have.
struct Returnable {
  std::span<PyObject *const> given; ///< arguments, or what is in them: later calls return theirs
  /// Instances that the body has made: nothing but the result refers to them. Later calls make
  /// others.
  bool made = false;
  std::span<PyObject *const> containers = {}; ///< lists and dicts among the arguments
  ReachedObjects *reached =
      nullptr; ///< what the body has found outside (pytree/pytree.h); null: nothing
};

/// Describes what the body returned, to which the caller has one reference; `tensors` gets its
/// distinct tensors in order. Throws TypeError for an object that a later call could not make
/// again.
OutputSpec describe_result(PyObject *result, const std::string &function,
                           std::vector<Owned> &tensors, const Returnable &objects);

/// Whether some of its numbers are computed by the graph.
bool returns_numbers(const OutputSpec &spec);

/// How `body`'s result, whose tensors are `tensors`, differs from what a graph's would be, but for
/// what its tensors hold: `output[1]: 3 in the graph, 4 in the body`; empty: not. Then `aligned`
/// has the tensors in the order of `graph`.
std::string difference(const OutputSpec &graph, const OutputSpec &body,
                       const std::vector<Owned> &tensors, std::vector<at::Tensor> &aligned);

/// The result of a hit: a new reference, or null with a Python error set. Consumes `outputs`.
/// `given`: of the call, by their numbers at the trace; where they are not known, empty.
/// `containers`: likewise; if empty or null, they are made again.
PyObject *build_result(const OutputSpec &spec, torch::jit::Stack &outputs,
                       std::span<PyObject *const> given = {},
                       std::span<PyObject *const> containers = {});
/// The same structure with other objects in place of its tensors.
PyObject *build_result(const OutputSpec &spec, const std::vector<PyObject *> &in_place_of_tensors);

} // namespace tracehost::python
