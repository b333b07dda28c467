#include "interpreter/run.h"

#include "interpreter/interception.h"
#include "interpreter/library.h"
#include "interpreter/warning_options.h"

#include <Python.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace tracehost::interpreter {
namespace {

constexpr int exit_over_limit = 3;

int give_up(PyConfig &config, const PyStatus &status) {
  PyConfig_Clear(&config);
  if (PyStatus_IsExit(status)) // --version, -h and the like: printed already
    return status.exitcode;
  Py_ExitStatusException(status);
}

// What `tracehost --max-retraces N` or `--frozen` has found at the end. Python knows its status by
// then, and may leave by exit(): the process itself changes it.
void end_over_limit(int status, void *) {
  const char *process = std::getenv("TRACEHOST_OVER_LIMIT");
  if (status != 0 || process == nullptr || std::to_string(::getpid()) != process)
    return;
  std::fflush(nullptr);
  ::_exit(exit_over_limit);
}

// `filters`: a -W entry for tracehost's classes may be given.
int start(PyConfig &config, bool filters) {
  const bool asked = interception_asked();
  std::wstring module;
  WarningOptions warning_options;
  auto status = asked || filters ? PyConfig_Read(&config) : PyStatus_Ok();
  if (asked && !PyStatus_Exception(status))
    status = direct_main(config, module);
  if (filters && !PyStatus_Exception(status))
    status = warning_options.take(config);
  if (!PyStatus_Exception(status))
    status = Py_InitializeFromConfig(&config);
  if (PyStatus_Exception(status))
    return give_up(config, status);
  PyConfig_Clear(&config);
  warning_options.install();
  if (const int code = asked ? install_interception(module) : 0)
    return Py_FinalizeEx(), code;
  return Py_RunMain();
}

PyStatus configure(PyConfig &config, const std::string &executable,
                   const std::vector<std::string> &args) {
  // argv[0] is what CPython names itself by in its messages and in sys.orig_argv.
  std::vector<char *> argv{const_cast<char *>(executable.c_str())};
  for (const auto &arg : args)
    argv.push_back(const_cast<char *>(arg.c_str()));
  PyConfig_InitPythonConfig(&config);
  config.parse_argv = 1;
  // First of all setters: it preinitialises with -E, -I, -X utf8 taken into account, and the bytes
  // of the others are decoded by what it finds.
  auto status = PyConfig_SetBytesArgv(&config, static_cast<Py_ssize_t>(argv.size()), argv.data());
  if (!PyStatus_Exception(status))
    status = PyConfig_SetBytesString(&config, &config.executable, executable.c_str());
  return status;
}

} // namespace

int run_program(const std::string &executable, const std::vector<std::string> &args) {
  if (std::getenv("TRACEHOST_MAX_RETRACES") != nullptr ||
      std::getenv("TRACEHOST_FROZEN") != nullptr)
    ::on_exit(&end_over_limit, nullptr);
  PyConfig config;
  const auto status = configure(config, executable, args);
  return PyStatus_Exception(status) ? give_up(config, status)
                                    : start(config, WarningOptions::may_be_given(args));
}

int run_module(const std::string &executable, const std::string &package,
               const std::vector<std::string> &args,
               const std::function<int(const std::string &)> &failed) {
  PyConfig config;
  auto status = configure(config, executable, args);
  if (!PyStatus_Exception(status))
    status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) {
    const std::string where = status.func == nullptr ? "" : std::string(status.func) + ": ";
    return failed("Python cannot start: " + where + (status.err_msg ? status.err_msg : "it exits"));
  }
  PyObject *found = PyImport_ImportModule(package.c_str());
  if (found == nullptr)
    return failed(take_failure());
  Py_DECREF(found); // before Python ends
  return Py_RunMain();
}

int run_as_python(int argc, char **argv) {
  const bool filters = WarningOptions::may_be_given({argv, argv + argc});
  if (!interception_asked() && !filters)
    return Py_BytesMain(argc, argv);
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  const auto status = PyConfig_SetBytesArgv(&config, argc, argv);
  return PyStatus_Exception(status) ? give_up(config, status) : start(config, filters);
}

} // namespace tracehost::interpreter
