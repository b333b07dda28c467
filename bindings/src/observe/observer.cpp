#include "observe/observer.h"

#include "base/forget_error.h"
#include "base/object.h"

#include <utility>

namespace tracehost::python {

namespace {

thread_local Observer *innermost = nullptr;

} // namespace

Observer::Observer() : outer_(std::exchange(innermost, this)) { start(); }

Observer::~Observer() {
  innermost = outer_;
  const KeepError keep;
  stop();
}

bool Observer::tell(const Frame &frame, int unit) {
  bool runs = true;
  for (Observer *o = innermost; o && runs && !o->busy_; o = o->outer_) {
    o->busy_ = true;
    runs = o->on_instruction(frame, unit);
    o->busy_ = false;
  }
  return runs;
}

#if PY_VERSION_HEX < 0x030C0000

/// The thread's trace function.
int on_trace_event(PyObject *, PyFrameObject *frame, int what, PyObject *arg) {
  Observer *observer = innermost;
  if (!observer)
    return 0;
  if (what == PyTrace_CALL) {
    fields_of(frame).trace_opcodes = 1;
    if (!observer->previous_)
      fields_of(frame).trace_lines = 0;
  } else if (what == PyTrace_OPCODE) {
    const Frame &in = *frame_of(frame);
    return Observer::tell(in, unit_of(in)) ? 0 : -1;
  }
  while (observer && observer->previous_ == on_trace_event) // an outer trace
    observer = observer->outer_;
  return observer && observer->previous_
             ? observer->previous_(observer->previous_object_, frame, what, arg)
             : 0;
}

void Observer::start() {
  PyThreadState *thread = PyThreadState_Get();
  previous_ = thread->c_tracefunc;
  previous_object_ = Py_XNewRef(thread->c_traceobj);
  // sys.gettrace() still returns what the program set.
  PyEval_SetTrace(on_trace_event, previous_object_);
  started_ = thread->c_tracefunc == on_trace_event;
}

void Observer::stop() {
  // Where an audit hook raises, Python keeps the function that was set.
  const SignalsLater later;
  for (int times = 0; times < 3 && missed().empty(); ++times)
    PyEval_SetTrace(previous_, previous_object_);
  Py_XDECREF(previous_object_);
}

std::string Observer::missed() const {
  if (!started_)
    return "Python does not trace it";
  return PyThreadState_Get()->c_tracefunc == on_trace_event
             ? std::string()
             : "its code changed the trace function (sys.settrace, a debugger)";
}

#else

namespace {

int observers = 0; ///< of all threads; guarded by the GIL
int tool = -1;     ///< of sys.monitoring; -1: none

PyObject *on_monitoring_event(PyObject *, PyObject *const *arguments, Py_ssize_t count) {
  if (innermost && count == 2) {
    const Frame *frame = innermost_frame();
    if (frame && code_object(*frame) == arguments[0] &&
        !Observer::tell(*frame, static_cast<int>(PyLong_AsLong(arguments[1]) / 2)))
      return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef on_event = {
    "tracehost", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(on_monitoring_event)),
    METH_FASTCALL, nullptr};

Owned monitoring() {
  PyObject *module = PySys_GetObject("monitoring"); // borrowed
  return Owned(Py_XNewRef(module));
}

Owned instruction_event(PyObject *module) {
  const Owned events(PyObject_GetAttrString(module, "events"));
  return Owned(events ? PyObject_GetAttrString(events.get(), "INSTRUCTION") : nullptr);
}

/// A tool that nobody uses; those with a name of their own come last.
int take_tool(PyObject *module) {
  for (const int id : {4, 3, 5, 2, 1, 0}) {
    const Owned done(PyObject_CallMethod(module, "use_tool_id", "is", id, "tracehost"));
    if (done)
      return id;
    forget_error();
  }
  return -1;
}

void give_back(PyObject *module) {
  Owned(PyObject_CallMethod(module, "set_events", "ii", tool, 0));
  const Owned event = instruction_event(module);
  Owned(PyObject_CallMethod(module, "register_callback", "iOO", tool, event.get(), Py_None));
  Owned(PyObject_CallMethod(module, "free_tool_id", "i", tool));
  forget_error();
  tool = -1;
}

} // namespace

void Observer::start() {
  ++observers;
  const Owned module = monitoring();
  if (tool < 0 && module && (tool = take_tool(module.get())) >= 0) {
    const Owned event = instruction_event(module.get());
    const Owned function(PyCFunction_New(&on_event, nullptr));
    const Owned registered(event && function
                               ? PyObject_CallMethod(module.get(), "register_callback", "iOO", tool,
                                                     event.get(), function.get())
                               : nullptr);
    const Owned set(registered
                        ? PyObject_CallMethod(module.get(), "set_events", "iO", tool, event.get())
                        : nullptr);
    if (!set)
      give_back(module.get());
    forget_error();
  }
  started_ = tool >= 0;
}

void Observer::stop() {
  if (--observers == 0 && tool >= 0)
    if (const Owned module = monitoring())
      give_back(module.get());
}

std::string Observer::missed() const {
  return started_ && tool >= 0 ? std::string() : "no tool of sys.monitoring is free";
}

#endif

} // namespace tracehost::python
