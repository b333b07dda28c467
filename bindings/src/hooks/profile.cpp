#include "hooks/profile.h"

#include "base/errors.h"
#include "base/kinds.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "hooks/unsupported_calls.h"
#include "hooks/unsupported_optimizers.h"
#include "shapes/without_data.h"
#include "trace/lifted.h"
#include "trace/op_hook.h"
#include "trace/shadow.h"
#include "trace/tracer.h"

#include <torch/csrc/Generator.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

namespace tracehost::python {
namespace {

thread_local Profile *innermost = nullptr;

/// Whether `frame` is the body of a module that is being imported, or looks for one.
bool is_import(PyFrameObject *frame) {
  PyCodeObject *code = PyFrame_GetCode(frame);
  const bool module = std::string_view(utf8(code->co_name)) == "<module>";
  const bool machinery = std::string_view(utf8(code->co_filename)).starts_with("<frozen importlib");
  Py_DECREF(code);
  if (machinery)
    return true;
  if (!module)
    return false;
  const KeepError keep;
  const Owned globals(PyFrame_GetGlobals(frame));
  PyObject *spec = PyDict_GetItemString(globals.get(), "__spec__"); // borrowed
  const Owned initializing(spec ? PyObject_GetAttrString(spec, "_initializing") : nullptr);
  PyErr_Clear();
  return initializing.get() == Py_True;
}

/// Autograph's code: operators around the user's code; or what runs none of it, `alone`.
bool is_ours(PyFrameObject *frame, bool &alone) {
  PyCodeObject *code = PyFrame_GetCode(frame);
  const bool ours = origin_of(code) == Origin::tracehost;
  if (ours) {
    const std::string_view file = utf8(code->co_filename);
    alone = file.ends_with("/conversion/compile.py") || file.ends_with("/staging/state.py") ||
            file.ends_with("/staging/containers.py");
  }
  Py_DECREF(code);
  return ours;
}

/// A function of torch._C that changes how ops of all threads work.
bool is_process_wide(std::string_view name) {
  constexpr std::string_view starts[] = {"_set_default_dtype", "_set_default_tensor_type",
                                         "_set_deterministic", "_set_cudnn",
                                         "_set_cublas",        "_set_sdp",
                                         "_set_math_sdp",      "_set_mkldnn",
                                         "_set_onednn",        "_set_nnpack",
                                         "_set_float32",       "_set_fp32",
                                         "_set_blas",          "_set_linalg",
                                         "_set_qengine",       "set_num_threads",
                                         "set_num_interop",    "set_flush_denormal",
                                         "_set_conj",          "_set_mkl"};
  return std::any_of(std::begin(starts), std::end(starts),
                     [&](std::string_view start) { return name.starts_with(start); });
}

} // namespace

Profile::Profile(Recorder &recorder) : recorder_(recorder), outer_(std::exchange(innermost, this)) {
  find_interruptions();
  PyThreadState *thread = PyThreadState_Get();
  previous_ = thread->c_profilefunc;
  previous_object_ = Py_XNewRef(thread->c_profileobj);
  PyObject *self = PyCapsule_New(this, nullptr, nullptr);
  if (!self)
    rethrow();
  PyEval_SetProfile(on_event, self);
  Py_DECREF(self); // the thread holds it
  complete_ = true;
}

Profile::~Profile() {
  complete_ = false;
  if (std::string why = Observer::missed(); !why.empty())
    recorder_.missed(std::move(why));
  innermost = outer_;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyEval_SetProfile(previous_, previous_object_);
  Py_XDECREF(previous_object_);
  PyErr_Restore(type, value, traceback);
}

bool Profile::reaches(PyObject *object) {
  return innermost &&
         (innermost->recorder_.reaches(object) || innermost->recorder_.is_enclosed(object));
}

Recorder *Profile::recorder() { return innermost ? &innermost->recorder_ : nullptr; }

Profile::InCall::InCall() : profile_(innermost) {
  profile_->recorder_.begin_call();
  profile_->in_call_ = true;
}
Profile::InCall::~InCall() { profile_->in_call_ = false; }

int Profile::on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
  if (shapes::in_python_kernel()) // a library's code of shapes, beside the body
    return 0;
  auto *profile = static_cast<Profile *>(PyCapsule_GetPointer(self, nullptr));
  try {
    if (what == PyTrace_CALL) {
      profile->on_call(frame);
    } else if (what == PyTrace_RETURN) {
      if (frame == profile->aside_)
        profile->aside_ = nullptr;
    } else if (what == PyTrace_C_CALL) {
      InstanceCheck::calls(arg);
      profile->check_c_call(frame, arg);
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
  const auto add = [this](PyObject *callable) { // may be null
    if (Owned code(callable ? PyObject_GetAttrString(callable, "__code__") : nullptr); code.get())
      interruptions_.push_back(std::move(code));
    PyErr_Clear();
  };
  const Owned gc(PyImport_ImportModule("gc"));
  const Owned callbacks(gc.get() ? PyObject_GetAttrString(gc.get(), "callbacks") : nullptr);
  for (Py_ssize_t i = 0; callbacks.get() && i < PyList_GET_SIZE(callbacks.get()); ++i)
    add(PyList_GET_ITEM(callbacks.get(), i));
  const Owned weakref(PyImport_ImportModule("weakref"));
  for (const char *type : {"WeakValueDictionary", "WeakKeyDictionary", "WeakSet"}) {
    const Owned found(weakref.get() ? PyObject_GetAttrString(weakref.get(), type) : nullptr);
    const Owned init(found.get() ? PyObject_GetAttrString(found.get(), "__init__") : nullptr);
    const Owned code(init.get() ? PyObject_GetAttrString(init.get(), "__code__") : nullptr);
    const Owned constants(code.get() ? PyObject_GetAttrString(code.get(), "co_consts") : nullptr);
    for (Py_ssize_t i = 0; constants.get() && i < PyTuple_GET_SIZE(constants.get()); ++i)
      if (PyObject *callback = PyTuple_GET_ITEM(constants.get(), i); PyCode_Check(callback))
        interruptions_.emplace_back(Py_NewRef(callback));
    PyErr_Clear();
  }
  const Owned signals(PyImport_ImportModule("_signal"));
  for (int number = 1; signals.get() && number < NSIG; ++number) {
    const Owned handler(PyObject_CallMethod(signals.get(), "getsignal", "i", number));
    if (handler && (PyFunction_Check(handler.get()) || PyMethod_Check(handler.get())))
      add(handler.get());
    PyErr_Clear();
  }
  for (const char *name : {"stdout", "stderr"})
    for (const char *method : {"write", "flush"}) {
      PyObject *stream = PySys_GetObject(name); // borrowed
      add(Owned(stream ? PyObject_GetAttrString(stream, method) : nullptr).get());
    }
}

/// Code that Python itself runs in between: also destructors.
bool Profile::is_interruption(PyFrameObject *frame) const {
  PyCodeObject *code = PyFrame_GetCode(frame);
  auto *object = reinterpret_cast<PyObject *>(code);
  const auto is_it = [object](const Owned &known) { return known.get() == object; };
  const bool found = std::any_of(interruptions_.begin(), interruptions_.end(), is_it) ||
                     std::string_view(utf8(code->co_name)) == "__del__";
  Py_DECREF(code);
  return found;
}

/// Code under way that is not the body's.
bool Profile::is_aside(PyFrameObject *frame) const {
  return is_import(frame) || is_interruption(frame);
}

void Profile::on_instruction(const Frame &frame, int unit) {
  if (!complete_)
    return;
  const Instruction *instruction = recorder_.coming(frame, unit);
  InstanceCheck::comes(instruction && instruction->action == Action::match_class);
  if (!instruction || aside_ || shapes::in_python_kernel() || trace::abandoned())
    return;
  recorder_.observe(frame, *instruction, in_call_);
}

void Profile::on_call(PyFrameObject *frame) {
  if (aside_ || trace::abandoned())
    return;
  if (in_call_) {
    return;
  }
  if (is_aside(frame)) {
    aside_ = frame;
    return;
  }
  if (bool alone = false; is_ours(frame, alone)) {
    if (alone)
      aside_ = frame;
    return;
  }
  recorder_.enter(frame);
  if (trace::lifted())
    return;
  if (const auto why = why_rejected(frame); !why.empty())
    trace::reject(trace::Rejection::trace, why);
  check_optimizer(frame);
}

void Profile::check_c_call(PyFrameObject *frame, PyObject *function) {
  if (!PyCFunction_Check(function) || aside_ || in_call_ || trace::lifted() || trace::abandoned())
    return;
  const std::string_view name = reinterpret_cast<PyCFunctionObject *>(function)->m_ml->ml_name;
  PyObject *self = PyCFunction_GET_SELF(function);
  const bool seeds = name == "manual_seed" || name == "seed" || name == "set_state" ||
                     name == "set_offset" || name == "graphsafe_set_state";
  if (seeds && self && THPGenerator_Check(self))
    trace::reject(
        trace::Rejection::trace,
        fmt::format("the body sets a random generator's state (Generator.{}) at {}, which is not "
                    "recorded in a graph. Seed outside of the function.",
                    name, text(user_line())));
  if (const auto why = why_rejected(function, frame); !why.empty())
    trace::reject(trace::Rejection::trace, why);
  if (const std::string source = foreign_generator(self); !source.empty())
    trace::note_draw(fmt::format("{}.{}", source, name));
  if (is_process_wide(name))
    trace::reject(
        trace::Rejection::trace,
        fmt::format("the body changes a setting of the whole process ({}) at {}, which is not "
                    "recorded in a graph. Change it outside of the function.",
                    name, text(user_line())));
  if (name == "_swap_tensor_impl")
    trace::reject(
        trace::Rejection::trace,
        fmt::format("the body swaps two tensors (torch.utils.swap_tensors) at {}, which is not "
                    "recorded in a graph. Do it outside of the function.",
                    text(user_line())));
  if (name == "_to_dlpack" || name == "_to_dlpack_versioned")
    trace::reject_read(
        fmt::format("the body gives a tensor's memory away ({}) at {}, which a graph can't "
                    "repeat. Move it out of the function.",
                    name, text(user_line())));
}

} // namespace tracehost::python
