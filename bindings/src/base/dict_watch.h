#pragma once

#include "base/forget_error.h"

#include <Python.h>

#include <cstdint>
#include <span>
#include <utility>

/// Whether a dict is as it was, without a look at its names.
///
/// Problem: a call compares the names that a trace has read in dicts, and a look-up costs more than
/// the rest of the comparison. Answer: CPython says when a dict changes.
///
/// | Python | says it by | counts |
/// |---|---|---|
/// | 3.11 (dict_tags.cpp) | a version tag in the dict | each change |
/// | from 3.12 on (dict_watchers.cpp) | a watcher, which runs before the change | changes of the
/// names that were read |
///
/// Both give the address of a number, and the number that was there:
///
///     watch.start(dict, names, false)     before the names are read
///     seen = watch.now()                  and once they are compared
///     seen.same()                         hot: one load. False once one of the names may differ
///
/// Where nothing reports changes, start() is false, and the caller compares the names each time.
/// Requires for all: GIL held.

namespace tracehost::python {

/// The state of a dict at one moment. By default that of no dict, which stays the same.
struct DictSeen {
  inline static constexpr std::uint64_t kNothing = 0;

  const std::uint64_t *at = &kNothing;
  std::uint64_t version = kNothing;

  bool same() const { return *at == version; }
  /// A state that is never the same.
  static DictSeen unknown() { return {&kNothing, kNothing + 1}; }
};

/// Follows one dict at a time, which it does not keep alive. Once the dict is gone, what now() has
/// given is not the same any more; on 3.11 its owner must not read it then.
class DictWatch {
public:
  DictWatch() = default;
  DictWatch(DictWatch &&other) noexcept : on_(std::exchange(other.on_, nullptr)) {
    whole_ = other.whole_;
  }
  DictWatch &operator=(DictWatch &&other) noexcept {
    std::swap(on_, other.on_);
    std::swap(whole_, other.whole_);
    return *this;
  }
  ~DictWatch() { stop(); }

  /// Whether it follows that dict, and changes are reported.
  bool follows(PyObject *dict) const;
  /// Follows `dict` from now on, in place of another one. Changes of `names` count, each a str of
  /// exactly that type; `whole`: all changes. False: nothing reports them.
  bool start(PyObject *dict, std::span<PyObject *const> names, bool whole);
  /// Requires: follows() the dict, which is alive.
  DictSeen now() const;
  /// Gives up the dict. Does nothing once Python has ended.
  void stop();

  /// For tests: whether changes of the dict are reported to anyone.
  static bool is_followed(PyObject *dict);

private:
  struct Followed;
  Followed *on_ = nullptr;
  bool whole_ = false;
};

inline constexpr std::int32_t kNoPlace = -1, kNeverThere = -2;

/// The value of a name, or of a key, in a dict; borrowed, or null. `place`:
/// where the dict had it the last time, at first kNoPlace, which the call sets. Python 3.11 looks
/// there first, since its loops at module level change globals at each turn.
PyObject *value_of(PyObject *dict, PyObject *name, std::int32_t &place);

/// The same by a search, as the interpreter does. What ends a program (KeyboardInterrupt) stays
/// set.
inline PyObject *look_up(PyObject *dict, PyObject *name) {
  PyObject *value = PyDict_GetItemWithError(dict, name);
  if (!value && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
    forget_error();
  return value;
}

} // namespace tracehost::python
