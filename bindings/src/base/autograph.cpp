#include "base/autograph.h"

#include "base/forget_error.h"
#include "base/lazy.h"
#include "trace/tracer.h"

#include <utility>

namespace tracehost::python {

namespace py = pybind11;

namespace {

thread_local bool converting = false;

/// A function of `tracehost.autograph`.
class Entry {
public:
  constexpr Entry(const char *module, const char *name) : module_(module), name_(name) {}
  PyObject *get() {
    return made_([this] {
      const py::object found = py::module_::import(module_).attr(name_);
      return Py_NewRef(found.ptr());
    });
  }

private:
  const char *module_, *name_;
  Lazy<PyObject *> made_;
};

struct Autograph {
  Entry convert_callable{"tracehost.autograph.run.calls", "convert_callable"};
  Entry forget_shown{"tracehost._traced.shown_calls", "forget_shown"};
  Entry is_shown{"tracehost._traced.shown_calls", "is_shown"};
  Entry result_of{"tracehost.autograph.staging.lists", "result_of"};
  Entry original_code{"tracehost.autograph.conversion.compile", "original_code"};
  Entry is_generated{"tracehost.autograph.conversion.compile", "is_generated"};
  Entry clean_traceback{"tracehost.autograph.run.traceback", "clean_traceback"};
  Entry why_not_converted{"tracehost.autograph.run.traceback", "why_not_converted"};
};
constinit Autograph autograph;

Owned ask(PyObject *function, PyObject *argument) {
  Owned result(PyObject_CallOneArg(function, argument));
  if (!result)
    forget_error();
  return result;
}

} // namespace

Converting::Converting(bool on) : before_(std::exchange(converting, on)) {}
Converting::~Converting() { converting = before_; }
bool Converting::now() { return converting && trace::active() && !trace::abandoned(); }

bool Converting::is_outermost() const { return !before_; }

void forget_shown() {
  const Owned done(PyObject_CallNoArgs(autograph.forget_shown.get()));
  forget_error();
}

bool is_shown() {
  const Owned shows(PyObject_CallNoArgs(autograph.is_shown.get()));
  forget_error();
  return shows && shows.get() == Py_True;
}

Owned converted(PyObject *callable) {
  return Owned(PyObject_CallOneArg(autograph.convert_callable.get(), callable));
}

Owned plain_result(PyObject *result) {
  return Owned(PyObject_CallOneArg(autograph.result_of.get(), result));
}

PyObject *original_function(PyObject *function) {
  static constinit Lazy<PyObject *> key;
  PyObject *attributes = reinterpret_cast<PyFunctionObject *>(function)->func_dict;
  PyObject *found =
      attributes ? PyDict_GetItemWithError(attributes, key([] {
                                             return PyUnicode_InternFromString("__ag_original__");
                                           }))
                 : nullptr;
  return found ? found : function;
}

Owned original_code(PyCodeObject *code) {
  Owned found = ask(autograph.original_code.get(), reinterpret_cast<PyObject *>(code));
  if (found && PyCode_Check(found.get()))
    return found;
  return Owned(Py_NewRef(reinterpret_cast<PyObject *>(code)));
}

bool is_generated(PyCodeObject *code) {
  return ask(autograph.is_generated.get(), reinterpret_cast<PyObject *>(code)).get() == Py_True;
}

void clean_traceback() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback)
    PyException_SetTraceback(value, traceback);
  ask(autograph.clean_traceback.get(), value);
  Py_XSETREF(traceback, PyException_GetTraceback(value));
  PyErr_Restore(type, value, traceback);
}

std::string why_not_converted() {
  const KeepError keep;
  const Owned why(PyObject_CallNoArgs(autograph.why_not_converted.get()));
  if (!why)
    forget_error();
  return why && PyUnicode_Check(why.get()) ? utf8(why.get()) : std::string();
}

void add_conversion(py::module_ &module) { module.def("converting", &Converting::now); }

} // namespace tracehost::python
