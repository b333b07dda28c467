#pragma once

#include "guards/gil.h"

#include <Python.h>

#include <string>
#include <unordered_map>

namespace tracehost::python {

/// What earlier traces of a Function found in such slots when they read them first, by path.
/// Requires: GIL held.
class NumberHistory {
public:
  /// The body has read `before` in the slot, and stored another value. A number is noted; of a
  /// tuple its numbers, as `path[0]` ...
  void note(const std::string &path, PyObject *before);
  /// Whether a trace that finds `value` there takes it as an input.
  bool varies(const std::string &path, PyObject *value) const;
  bool empty() const { return first_.empty(); }

private:
  std::unordered_map<std::string, Owned> first_;
};

} // namespace tracehost::python
