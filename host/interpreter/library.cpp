#include "interpreter/library.h"

#include "interpreter/environment.h"

#include <dlfcn.h>

#include <stdexcept>

namespace tracehost::interpreter {
namespace {

// Extension modules take Python's symbols from the process, where an application that was opened
// with RTLD_LOCAL does not have them.
void make_symbols_visible() {
  const std::string library = loaded_libpython();
  if (!library.empty())
    dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

void check(const PyStatus &status, PyConfig *config) {
  if (!PyStatus_Exception(status))
    return;
  const std::string why = status.err_msg ? status.err_msg : "it wants to exit";
  if (config)
    PyConfig_Clear(config);
  throw std::runtime_error("Python could not be started: " + why);
}

void initialise(const Environment &environment) {
  PyPreConfig pre;
  PyPreConfig_InitIsolatedConfig(&pre);
  pre.utf8_mode = 1; // under LC_ALL=C its streams would be ASCII
  check(Py_PreInitialize(&pre), nullptr);
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.site_import = 1; // activates the venv
  config.install_signal_handlers = 0;
  check(PyConfig_SetBytesString(&config, &config.executable, environment.executable.c_str()),
        &config);
  check(Py_InitializeFromConfig(&config), &config);
  PyConfig_Clear(&config);
}

} // namespace

std::string take_failure() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Owned held[] = {Owned(type), Owned(value), Owned(trace)};
  const Owned text(value ? PyObject_Str(value) : nullptr);
  const char *bytes = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return bytes ? bytes : "an exception without a text";
}

bool start_library(const std::string &python) {
  if (Py_IsInitialized())
    return false;
  const KeepSigint keep;
  std::string error;
  const auto environment = find_environment(python, "Options::python or TRACEHOST_PYTHON", error);
  if (!environment)
    throw std::runtime_error(error);
  make_symbols_visible();
  initialise(*environment);
  PyObject *signals = PyImport_ImportModule("signal");
  Py_XDECREF(signals);
  PyErr_Clear();
  PyEval_SaveThread(); // or another thread's PyGILState_Ensure would wait forever
  return true;
}

void add_to_path(const std::vector<std::string> &path) {
  PyObject *list = PySys_GetObject("path"); // borrowed
  for (std::size_t i = path.size(); list && i-- > 0;) {
    const Owned entry(PyUnicode_DecodeFSDefault(path[i].c_str()));
    if (!entry || PyList_Insert(list, 0, entry.get()) != 0) {
      PyErr_Clear();
      throw std::runtime_error("'" + path[i] + "' could not be added to sys.path");
    }
  }
}

void end_library() {
  const KeepSigint keep;
  const Owned atexit(PyImport_ImportModule("atexit"));
  const Owned ran(atexit ? PyObject_CallMethod(atexit.get(), "_run_exitfuncs", nullptr) : nullptr);
  flush_streams();
}

void flush_streams() {
  for (const char *name : {"stdout", "stderr"}) {
    PyObject *stream = PySys_GetObject(name);
    const Owned flushed(stream ? PyObject_CallMethod(stream, "flush", nullptr) : nullptr);
    PyErr_Clear();
  }
}

std::string prefix() {
  PyObject *text = PySys_GetObject("prefix"); // borrowed
  const char *bytes = text ? PyUnicode_AsUTF8(text) : nullptr;
  PyErr_Clear();
  return bytes ? bytes : "?";
}

} // namespace tracehost::interpreter
