#include "conversion.h"

#include "frames.h"
#include "trace/tracer.h"

#include <fmt/format.h>

#include <utility>

namespace tracehost::python {

namespace py = pybind11;

namespace {

thread_local bool converting = false;

/// A function of `tracehost.autograph`; held for the process's life.
PyObject *entry(const char *module, const char *name) {
  return py::object(py::module_::import(module).attr(name)).release().ptr();
}

Owned ask(PyObject *function, PyObject *argument) {
  Owned result(PyObject_CallOneArg(function, argument));
  if (!result)
    PyErr_Clear();
  return result;
}

} // namespace

Converting::Converting(bool on) : before_(std::exchange(converting, on)) {}
Converting::~Converting() { converting = before_; }
bool Converting::now() { return converting && trace::active() && !trace::abandoned(); }

Owned converted(PyObject *callable) {
  static PyObject *convert = entry("tracehost.autograph._calls", "convert_callable");
  return Owned(PyObject_CallOneArg(convert, callable));
}

PyObject *original_function(PyObject *function) {
  static PyObject *key = PyUnicode_InternFromString("__ag_original__");
  PyObject *attributes = reinterpret_cast<PyFunctionObject *>(function)->func_dict;
  PyObject *found = attributes ? PyDict_GetItemWithError(attributes, key) : nullptr;
  return found ? found : function;
}

Owned original_code(PyCodeObject *code) {
  static PyObject *find = entry("tracehost.autograph._compile", "original_code");
  Owned found = ask(find, reinterpret_cast<PyObject *>(code));
  if (found && PyCode_Check(found.get()))
    return found;
  return Owned(Py_NewRef(reinterpret_cast<PyObject *>(code)));
}

bool is_generated(PyCodeObject *code) {
  static PyObject *find = entry("tracehost.autograph._compile", "is_generated");
  return ask(find, reinterpret_cast<PyObject *>(code)).get() == Py_True;
}

void clean_traceback() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  static PyObject *clean = entry("tracehost.autograph._traceback", "clean_traceback");
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback)
    PyException_SetTraceback(value, traceback);
  ask(clean, value);
  Py_XSETREF(traceback, PyException_GetTraceback(value));
  PyErr_Restore(type, value, traceback);
}

std::string why_not_converted() {
  const KeepError keep;
  static PyObject *find = entry("tracehost.autograph._traceback", "why_not_converted");
  const Owned why(PyObject_CallNoArgs(find));
  if (!why)
    PyErr_Clear();
  return why && PyUnicode_Check(why.get()) ? utf8(why.get()) : std::string();
}

void add_conversion(py::module_ &module) { module.def("converting", &Converting::now); }

} // namespace tracehost::python
