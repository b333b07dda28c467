#pragma once

#include "environment/gil.h"
#include "program/output_spec.h"

#include <ATen/core/stack.h>
#include <Python.h>

#include <vector>

/// A Function's result as an OutputSpec, and back. Requires for all: GIL held.

namespace tracehost::python {

/// Describes what the body returned; `tensors` gets its distinct tensors in order.
/// Throws TypeError for an object that a later call could not return anew.
OutputSpec describe_result(PyObject *result, const std::string &function,
                           std::vector<Owned> &tensors);

/// Whether some of its numbers are computed by the graph: sizes that may differ at each call.
bool returns_sizes(const OutputSpec &spec);

/// The result of a hit: a new reference, or null with a Python error set. Consumes `outputs`.
PyObject *build_result(const OutputSpec &spec, torch::jit::Stack &outputs);
/// The same structure with other objects in place of its tensors.
PyObject *build_result(const OutputSpec &spec, const std::vector<PyObject *> &in_place_of_tensors);

} // namespace tracehost::python
