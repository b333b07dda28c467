#pragma once

#include "archive/archive.h"
#include "program/output_spec.h"
#include "signature/native_atoms.h"
#include "signature/signature.h"

#include <Python.h>

#include <cstddef>
#include <string>
#include <vector>

/// Signatures and results without Python, as archives have them, and back. Requires for all: GIL
/// held.

namespace tracehost::python {

/// Why a value is none that can be stored: the value, and a sentence.
struct Unstorable {
  std::size_t node = 0;
  std::string value; ///< `<Net object>`
};

/// Nodes whose atoms are PyAtoms and ContainerTypes, with native ones in their place. `objects`:
/// null, or by node the leaf. Throws Unstorable.
void make_native(std::vector<Node> &nodes, std::vector<AtomRef> &atoms);

/// The value that the nodes from `at` on are; moves `at` behind it. `tensors`: by slot, borrowed.
/// Null with an error set.
PyObject *python_tree(const std::vector<Node> &nodes, std::size_t &at,
                      const std::vector<PyObject *> &tensors);

} // namespace tracehost::python
