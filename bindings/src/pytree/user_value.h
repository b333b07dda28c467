#pragma once

#include "base/object.h"
#include "signature/tensor_spec.h"

#include <Python.h>

#include <string>
#include <unordered_map>
#include <vector>

/// Objects whose classes have `__tracehost_type__`, as the graph and the body take them.
///
///     type.cast(value, context)         the value as the type has them, its own or a wider one
///     type.to_tensors(value)            its tensors: inputs of the graph
///     type.flatten()                    their TensorSpecs: sizes of None are any
///     type.from_tensors(iterator)       what the body sees, made of the graph's inputs
///     type.placeholder_value(context)   what it sees where there is no from_tensors
///
/// All are optional. Requires for all: GIL held.

namespace tracehost::python {

struct UserValue {
  Owned object; ///< what was passed; held: an address stays its own
  Owned type;   ///< that the trace is for: its own, or a wider one
  Owned value;  ///< `object`, or what cast made of it
  bool has_tensors = false;
  std::vector<Owned> tensors;
  std::vector<TensorSpec> specs; ///< of the tensors; empty: the type has no flatten
};

/// As a trace for `type` takes `object`. Throws a SignatureError that names class and method for
/// what raises or gives something else.
UserValue user_value(PyObject *object, Owned type);

/// What the body sees in its place while it is traced: a new reference, null: itself. `argument`:
/// the parameter's name. Throws as user_value().
PyObject *seen_by_body(const UserValue &value, const std::string &argument);

/// Those of one call. Each object's methods are asked once.
class UserValues {
public:
  /// Objects that of() meets first after this call are taken as these types, in order, where a type
  /// is above the object's own. Null: the object's own type.
  void expect(std::vector<PyObject *> types);
  /// `object` is to be taken as one of `type`.
  void set_type(PyObject *object, PyObject *type);

  const UserValue &of(PyObject *object);

private:
  std::unordered_map<PyObject *, UserValue> made_;
  std::unordered_map<PyObject *, Owned> types_;
  std::vector<PyObject *> expected_; ///< borrowed
  std::size_t next_ = 0;
};

} // namespace tracehost::python
