#include "base/user_line.h"

#include "base/forget_error.h"
#include "base/frame.h"
#include "base/instructions.h"
#include "base/object.h"
#include "base/origin.h"

#include <string_view>

namespace tracehost::python {

namespace {

thread_local PyFrameObject *outer = nullptr; // strong

/// Calls `look(frame, origin)` for the frames of the body, innermost first, until it returns true.
template <typename Look> void each_frame(const Look &look) {
  const Frame *end = outer ? frame_of(outer) : nullptr;
  for (const Frame *frame = innermost_frame(); frame && frame != end; frame = caller_of(*frame))
    if (look(*frame, origin_of(frame->code)))
      return;
}

bool is_exit(PyObject *function) {
  if (!PyFunction_Check(function) && !Py_IS_TYPE(function, &PyMethodDescr_Type))
    return false;
  const std::string_view name =
      utf8(PyFunction_Check(function) ? reinterpret_cast<PyFunctionObject *>(function)->func_name
                                      : PyDescr_NAME(function));
  return name == "__exit__" || name == "__aexit__";
}

/// In a `with` over such an object, whose exit method lies on the stack: bound, or from 3.14 on
/// with the object above it.
template <typename Of> bool is_in_with(const Frame &frame, const Instruction &i, const Of &of) {
  const Word<PyObject> *stack = stack_of(frame);
  for (int at = 0; at < i.kept; ++at) {
    PyObject *value = stack[at], *above = at + 1 < i.kept ? stack[at + 1] : nullptr;
    if (value && (PyMethod_Check(value)     ? of(PyMethod_GET_SELF(value))
                  : above && is_exit(value) ? of(above)
                                            : false))
      return true;
  }
  return false;
}

bool suppresses(const Frame &frame, const Instruction &instruction) {
  return is_in_with(frame, instruction, [](PyObject *entered) {
    return std::string_view(Py_TYPE(entered)->tp_name) == "suppress";
  });
}

/// An object of the user's class, or what `@contextlib.contextmanager` makes of the user's code.
bool is_users(PyObject *entered) {
  if (!is_library(origin_of_type(Py_TYPE(entered))))
    return true;
  if (std::string_view(Py_TYPE(entered)->tp_name) != "_GeneratorContextManager")
    return false;
  const Owned generator(PyObject_GetAttrString(entered, "gen"));
  const Owned code(generator ? PyObject_GetAttrString(generator.get(), "gi_code") : nullptr);
  forget_error();
  return code && PyCode_Check(code.get()) &&
         !is_library(origin_of(reinterpret_cast<PyCodeObject *>(code.get())));
}

/// The instruction of a frame of the user's or a package's that runs now; null: of a library's.
const Instruction *running(const Frame &frame, Origin origin) {
  const Instructions *all = is_library(origin) ? nullptr : instructions_of(frame.code);
  const int unit = all ? unit_of(frame) : -1;
  return unit >= 0 && unit < static_cast<int>(all->size()) ? &(*all)[unit] : nullptr;
}

Site site_of(const Frame &frame) { return {utf8(frame.code->co_filename), line_of(frame), {}}; }

} // namespace

BodyFrames::BodyFrames() : around_(outer) { outer = PyThreadState_GetFrame(PyThreadState_Get()); }

BodyFrames::~BodyFrames() {
  Py_XDECREF(outer);
  outer = around_;
}

PyFrameObject *outer_frame() { return outer; }

Site user_line() {
  Site package;
  Site site;
  each_frame([&](const Frame &frame, Origin origin) {
    if (origin == Origin::user)
      site = site_of(frame);
    else if (!is_library(origin) && !package.line)
      package = site_of(frame);
    return site.line > 0;
  });
  if (!site.line)
    return package;
  if (package.line)
    site.inside = text(package);
  return site;
}

bool is_made_by_user() {
  bool users = false;
  each_frame([&](const Frame &, Origin origin) {
    users = !is_library(origin);
    return origin != Origin::tracehost;
  });
  return users;
}

Site catching_line() {
  Site site;
  each_frame([&](const Frame &frame, Origin origin) {
    const Instruction *now = running(frame, origin);
    if (now && (now->caught || suppresses(frame, *now)))
      site = site_of(frame);
    return site.line > 0;
  });
  return site;
}

bool acts_on_raise() {
  const KeepError keep;
  bool acts = false;
  each_frame([&](const Frame &frame, Origin origin) {
    if (const Instruction *now = running(frame, origin))
      acts = now->caught || now->cleaned || suppresses(frame, *now) ||
             is_in_with(frame, *now, is_users);
    return acts;
  });
  return acts;
}

} // namespace tracehost::python
