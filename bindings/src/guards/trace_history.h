#pragma once

#include "base/object.h"

#include <Python.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tracehost::python {

/// What earlier traces of a Function have found out about its body. Requires: GIL held.
///
/// Numbers: what the body first found in a slot that it reads and stores, by path. Branches: lines
/// of `if`s on tensors of which a branch stores in code that it calls, what can't be joined.
class TraceHistory {
public:
  /// The body has read `before` in the slot, and stored another value. A number is noted; of a
  /// tuple its numbers, as `path[0]` ...
  void note(const std::string &path, PyObject *before);
  /// Whether a trace that finds `value` there takes it as an input.
  bool varies(const std::string &path, PyObject *value) const;
  bool has_numbers() const { return !first_.empty(); }

  void note_branch(std::string where) { branches_.insert(std::move(where)); }
  bool has_branch(const std::string &where) const { return branches_.contains(where); }

private:
  std::unordered_map<std::string, Owned> first_;
  std::unordered_set<std::string> branches_;
};

} // namespace tracehost::python
