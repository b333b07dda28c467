#pragma once

#include "base/frame.h"
#include "numbers/instance_check.h"
#include "observe/observer.h"
#include "observe/recorder.h"
#include "trace/frontend.h"

#include <Python.h>
#include <pybind11/pybind11.h>

#include <vector>

namespace tracehost::python {

/// A C profile function and an Observer for the current thread and one trace. Reports to the
/// Recorder which code and which instructions run. Raises for unsupported calls
/// (hooks/unsupported_calls.h). The user's profiler, if any, is called as well. A trace on fake
/// tensors runs kernels in Python (shapes::in_python_kernel()), which are not observed. Requires:
/// GIL held.
class Profile final : public Observer {
public:
  explicit Profile(Recorder &recorder);
  ~Profile() override;
  Profile(const Profile &) = delete;
  Profile &operator=(const Profile &) = delete;

  /// Paths::knows or is_enclosed of the innermost trace of this thread.
  static bool reaches(PyObject *object);
  /// The Recorder of the innermost trace of this thread; null: none.
  static Recorder *recorder();

  /// The body is about to do what no instruction shows, and what is not pure in a side of an `if`.
  /// Raises ImpureSide, or what a check raises.
  static void in_side(Sides::Kind kind, const std::string &what);

  /// A block of code that a node of the graph calls, at each run: only what it may store is noted.
  class InCall {
  public:
    InCall();
    ~InCall();
    InCall(const InCall &) = delete;
    InCall &operator=(const InCall &) = delete;

  private:
    Profile *profile_;
  };

private:
  bool in_kernel() const;
  bool on_instruction(const Frame &frame, int unit) override;
  bool observe(const Frame &frame, const Instruction &instruction);
  bool refuse();
  static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg);
  void on_call(const Frame &frame);
  void check_c_call(const Frame &frame, PyObject *function);
  void find_interruptions();
  bool is_interruption(const Frame &frame) const;

  // The Observer has begun before these, and an InstanceCheck runs Python code: it comes after what
  // on_instruction() reads.
  Recorder &recorder_;
  /// Code under way that is not the body's, borrowed: a module that is being imported fills new
  /// modules only, a destructor, a callback of the collector or what writes for print comes in
  /// between.
  const Frame *aside_ = nullptr;
  /// True while calls are reported as well. Without them, a callback of the collector looks like
  /// the body.
  bool complete_ = false;
  bool in_call_ = false;
  InstanceCheck instance_check_;
  int depth_;      ///< trace::op_depth() where the trace has begun
  Profile *outer_; ///< of this thread
  std::vector<pybind11::object>
      interruptions_; ///< code objects of those that have no name of their own
  Owned self_;        ///< what on_event gets. Its context is set once this is gone
  Py_tracefunc previous_;
  PyObject *previous_object_; ///< strong, or null
};

} // namespace tracehost::python
