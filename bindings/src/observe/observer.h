#pragma once

#include "base/frame.h"

#include <Python.h>

#include <string>

namespace tracehost::python {

/// Reports each instruction that this thread runs, before it runs, while the Observer lives.
///
/// Problem: only the interpreter knows which objects code meets. Answer: its events. In 3.11 a C
/// trace function gets opcode events. A trace function that was there before (coverage, a debugger)
/// is called for its own events, and is restored. From 3.12 on, a tool of `sys.monitoring` gets the
/// events, and the tool belongs to the interpreter. Observers of several threads share one tool:
/// the first takes it, the last gives it back.
///
/// What runs while on_instruction() does is not observed. Requires for every member: GIL held, on
/// one thread.
class Observer {
public:
  Observer();
  virtual ~Observer();
  Observer(const Observer &) = delete;
  Observer &operator=(const Observer &) = delete;

  /// An instruction comes: `unit`, its code unit. False: it must not run, and a Python error is
  /// set, which it raises. Must not throw.
  virtual bool on_instruction(const Frame &frame, int unit) = 0;

  /// Why instructions may have been missed, words for "because ..."; empty: none were.
  std::string missed() const;

  /// Reports the instruction to the innermost observer of this thread, and to those around it,
  /// until one of them rejects it.
  static bool tell(const Frame &frame, int unit);

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
