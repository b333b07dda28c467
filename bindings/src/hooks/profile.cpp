#include "hooks/profile.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "hooks/unsupported_calls.h"
#include "shapes/without_data.h"
#include "trace/eager_region.h"
#include "trace/op_hook.h"
#include "trace/shadow.h"
#include "trace/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

namespace tracehost::python {

namespace py = pybind11;

namespace {

thread_local Profile *innermost = nullptr;

/// Whether `frame` is the body of a module that is being imported, or looks for one.
bool is_import(const Frame &frame) {
  if (std::string_view(utf8(frame.code->co_filename)).starts_with("<frozen importlib"))
    return true;
  if (std::string_view(utf8(frame.code->co_name)) != "<module>")
    return false;
  const KeepError keep;
  PyObject *spec = PyDict_GetItemString(frame.globals, "__spec__"); // borrowed
  const Owned initializing(spec ? PyObject_GetAttrString(spec, "_initializing") : nullptr);
  forget_error();
  return initializing.get() == Py_True;
}

/// Of autograph's code, what runs none of the user's.
bool is_alone(const Frame &frame) {
  const std::string_view file = utf8(frame.code->co_filename);
  return file.ends_with("/staging/state.py") || file.ends_with("/staging/containers.py");
}

/// PyEval_SetProfile(), of which an audit hook runs first. Where that raises, as a Ctrl-C does that
/// comes in it, Python keeps the function that was set: it is asked again. Returns the error of a
/// signal that waited meanwhile, or null.
Owned set_profile(Py_tracefunc function, PyObject *object) {
  const SignalsLater later;
  const PyThreadState *thread = PyThreadState_Get();
  for (int times = 0; times < 3; ++times) {
    PyEval_SetProfile(function, object);
    if (thread->c_profilefunc == function && thread->c_profileobj == object)
      break;
  }
  return Owned(SignalsLater::take());
}

} // namespace

Profile::Profile(Recorder &recorder)
    : recorder_(recorder), depth_(trace::op_depth()), outer_(std::exchange(innermost, this)) {
  find_interruptions();
  PyThreadState *thread = PyThreadState_Get();
  previous_ = thread->c_profilefunc;
  previous_object_ = Py_XNewRef(thread->c_profileobj);
  self_ = Owned(PyCapsule_New(this, nullptr, nullptr));
  if (!self_)
    rethrow();
  recorder_.interrupt = set_profile(on_event, self_.get());
  complete_ = true;
}

Profile::~Profile() {
  complete_ = false;
  if (std::string why = Observer::missed(); !why.empty())
    recorder_.missed(std::move(why));
  innermost = outer_;
  const KeepError keep;
  if (PyThreadState_Get()->c_profileobj != self_.get())
    recorder_.missed("Python does not call its profile function");
  if (Owned interrupt = set_profile(previous_, previous_object_))
    recorder_.interrupt = std::move(interrupt);
  PyCapsule_SetContext(self_.get(), self_.get()); // where Python could not be kept from calling it
  Py_XDECREF(previous_object_);
}

bool Profile::reaches(PyObject *object) {
  const Paths *paths = innermost ? &innermost->recorder_.paths() : nullptr;
  return paths && (paths->knows(object) || paths->is_enclosed(object));
}

Recorder *Profile::recorder() { return innermost ? &innermost->recorder_ : nullptr; }

void Profile::in_side(Sides::Kind kind, const std::string &what) {
  if (!innermost || trace::abandoned())
    return;
  Sides &sides = innermost->recorder_.sides();
  sides.note(kind, what);
  if (sides.refuses())
    raise(errors().impure_side, sides.why_refused());
}

Profile::InCall::InCall() : profile_(innermost) {
  profile_->recorder_.begin_call();
  profile_->in_call_ = true;
}
Profile::InCall::~InCall() { profile_->in_call_ = false; }

int Profile::on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
  if (shapes::in_python_kernel()) // a library's code of shapes, beside the body
    return 0;
  if (PyCapsule_GetContext(self)) // it is gone
    return 0;
  auto *profile = static_cast<Profile *>(PyCapsule_GetPointer(self, nullptr));
  try {
    if (what == PyTrace_CALL) {
      profile->on_call(*frame_of(frame));
    } else if (what == PyTrace_RETURN) {
      if (frame_of(frame) == profile->aside_)
        profile->aside_ = nullptr;
    } else if (what == PyTrace_C_CALL) {
      InstanceCheck::calls(arg);
      profile->check_c_call(*frame_of(frame), arg);
    } else {
      InstanceCheck::returns();
    }
  } catch (const trace::Abandoned &) { // an unsupported body continues
  } catch (...) {
    set_from_current_exception();
    return -1;
  }
  return profile->previous_ ? profile->previous_(profile->previous_object_, frame, what, arg) : 0;
}

/// Callbacks of the collector, and of weak references that the standard library keeps; handlers of
/// signals. And how
/// print writes where the streams are Python objects, as in a notebook: what they keep is not the
/// body's, and changes with each line.
void Profile::find_interruptions() {
  const KeepError keep;
  const auto add = [this](py::handle code) {
    if (PyCode_Check(code.ptr()))
      interruptions_.push_back(py::reinterpret_borrow<py::object>(code));
  };
  const auto add_code_of = [add](py::handle callable) {
    add(py::getattr(callable, "__code__", py::none()));
  };
  for (const py::handle callback : py::module_::import("gc").attr("callbacks"))
    add_code_of(callback);
  const py::module_ weakref = py::module_::import("weakref");
  for (const char *type : {"WeakValueDictionary", "WeakKeyDictionary", "WeakSet"})
    for (const py::handle constant :
         weakref.attr(type).attr("__init__").attr("__code__").attr("co_consts"))
      add(constant);
  const py::object handler_of = py::module_::import("_signal").attr("getsignal");
  for (int number = 1; number < NSIG; ++number)
    add_code_of(handler_of(number));
  for (const char *name : {"stdout", "stderr"})
    for (const char *method : {"write", "flush"})
      if (PyObject *stream = PySys_GetObject(name)) // borrowed
        add_code_of(py::getattr(stream, method, py::none()));
}

/// Code that Python itself runs in between: also destructors.
bool Profile::is_interruption(const Frame &frame) const {
  const auto is_it = [&frame](const py::object &known) {
    return known.ptr() == code_object(frame);
  };
  return std::any_of(interruptions_.begin(), interruptions_.end(), is_it) ||
         std::string_view(utf8(frame.code->co_name)) == "__del__";
}

/// Whether an op of the graph runs its kernel, written in Python: each run of the graph runs it.
bool Profile::in_kernel() const {
  return !in_call_ && trace::op_depth() > depth_ && !trace::tracer_records();
}

bool Profile::on_instruction(const Frame &frame, int unit) {
  if (!complete_)
    return true;
  const Instruction *instruction = recorder_.coming(frame, unit);
  InstanceCheck::comes(instruction && instruction->action == Action::match_class);
  if (aside_ || in_kernel() || shapes::in_python_kernel() || trace::abandoned())
    return true;
  if (recorder_.sides().ends() && origin_of(frame.code) != Origin::tracehost)
    return refuse();
  return !instruction || observe(frame, *instruction);
}

/// False: the instruction is in a side of an `if` that may not do what it does.
bool Profile::observe(const Frame &frame, const Instruction &instruction) {
  try {
    recorder_.observe(frame, instruction, in_call_);
  } catch (const trace::Abandoned &) { // the condition can't be checked: the body continues
    return true;
  } catch (...) {
    set_from_current_exception();
    return false;
  }
  return !recorder_.sides().refuses() || refuse();
}

bool Profile::refuse() {
  PyErr_SetString(errors().impure_side, recorder_.sides().why_refused().c_str());
  return false;
}

void Profile::on_call(const Frame &frame) {
  if (aside_ || in_call_ || trace::abandoned())
    return;
  const bool ours = origin_of(frame.code) == Origin::tracehost;
  if (is_import(frame) || is_interruption(frame) || (ours && is_alone(frame)))
    aside_ = &frame;
  if (ours || aside_)
    return;
  recorder_.enter(frame);
  if (trace::in_eager_region())
    return;
  if (const auto why = why_rejected(frame); !why.empty())
    trace::reject(trace::Rejection::trace, why);
}

void Profile::check_c_call(const Frame &frame, PyObject *function) {
  if (!PyCFunction_Check(function) || aside_ || in_call_ || trace::in_eager_region() ||
      trace::abandoned())
    return;
  if (const auto why = why_rejected(function, frame); !why.empty())
    trace::reject(trace::Rejection::trace, why);
  const std::string_view name = reinterpret_cast<PyCFunctionObject *>(function)->m_ml->ml_name;
  if (const std::string source = foreign_generator(PyCFunction_GET_SELF(function)); !source.empty())
    trace::note_draw(fmt::format("{}.{}", source, name));
  if (name == "_to_dlpack" || name == "_to_dlpack_versioned")
    trace::reject_read(
        fmt::format("the body gives a tensor's memory away ({}) at {}, which a graph can't "
                    "repeat. Move it out of the function.",
                    name, text(user_line())));
}

} // namespace tracehost::python
