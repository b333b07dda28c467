#pragma once

#include "base/object.h"

#include <Python.h>

#include <utility>
#include <vector>

namespace tracehost::python {

/// The traced numbers that one trace has made: none stays in the program.
///
/// Problem: a body may put a number where no slot reports it: a deque, a set, a closure, an object
/// that it keeps. Answer: at the end of the body, the collector helps to find the numbers that are
/// alive. Python's numbers take their places.
///
///     window.append(loss.item())      the deque has a float after the trace
///
/// Requires for all: GIL held, on the thread that traces.
class NumbersLeft {
public:
  NumbersLeft() : outer_(std::exchange(innermost, this)) {}
  ~NumbersLeft() { innermost = outer_; }
  NumbersLeft(const NumbersLeft &) = delete;
  NumbersLeft &operator=(const NumbersLeft &) = delete;

  /// `number` was made in the innermost trace of this thread.
  static void made(PyObject *number);
  /// The slots hold Python's numbers already. Keeps an exception that is set.
  void replace();

private:
  static thread_local NumbersLeft *innermost;

  NumbersLeft *const outer_;
  std::vector<Owned> made_; ///< weak references
};

} // namespace tracehost::python
