#pragma once

#include "pytree/binder.h"
#include "signature/signature.h"
#include "signature/tensor_spec.h"

#include <Python.h>

#include <vector>

namespace tracehost::python {

/// A Function's input_signature: a `_arguments.signature.Declaration`, and what of it each miss
/// needs. Requires for every member: GIL held.
class Declaration {
public:
  /// Keeps `object`. Throws.
  explicit Declaration(PyObject *object);

  /// The call's values as declared, in the order of the parameters: a new tuple. Null if they are
  /// so already. Throws SignatureError for what does not fit. Runs Python.
  PyObject *convert(const Binder &binder, const Bound &bound) const;

  /// Makes the dimensions of `signature` dynamic that the specs leave open. For a tensor that is
  /// passed twice, both specs must leave the dimension open.
  void make_dynamic(Signature &signature) const;

  /// What the user declared: a tuple; new reference.
  PyObject *input_signature() const { return PyObject_GetAttrString(object_.get(), "signature"); }
  PyObject *object() const { return object_.get(); } ///< for the garbage collector

private:
  Owned object_;
  std::vector<std::vector<TensorSpec>> specs_; ///< by parameter, in the order of its tensors
};

} // namespace tracehost::python
