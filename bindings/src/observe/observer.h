#pragma once

#include "base/frame.h"

#include <Python.h>

#include <string>

namespace tracehost::python {

/// Tells of each instruction that this thread runs, before it runs, for a scope.
///
/// Problem: only the interpreter knows which objects code meets. Answer: its events. In 3.11 a C
/// trace function with opcode events; one that was there before (coverage, a debugger) is called
/// for its own events, and is put back. From 3.12 on the events of a tool of `sys.monitoring`,
/// which belong to the interpreter. Observers of several threads share one tool: the first takes
/// it, the last gives it back.
///
/// What runs while on_instruction() does is not observed. Requires for every member: GIL held, on
/// one thread.
class Observer {
public:
  Observer();
  virtual ~Observer();
  Observer(const Observer &) = delete;
  Observer &operator=(const Observer &) = delete;

  /// An instruction comes: `unit`, its code unit. Must not throw.
  virtual void on_instruction(const Frame &frame, int unit) = 0;

  /// Why instructions may have been missed, words for "because ..."; empty: none were.
  std::string missed() const;

  /// Of the innermost observer of this thread, and those around it.
  static void tell(const Frame &frame, int unit);

private:
  void start();
  void stop();

  Observer *outer_; ///< of this thread
  bool busy_ = false;
  bool started_ = false;
  Py_tracefunc previous_ = nullptr;
  PyObject *previous_object_ = nullptr; ///< strong
  friend int on_trace_event(PyObject *, PyFrameObject *, int, PyObject *);
};

} // namespace tracehost::python
