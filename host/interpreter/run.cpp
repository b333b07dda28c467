#include "interpreter/run.h"

#include <Python.h>

namespace tracehost::interpreter {
namespace {

int give_up(PyConfig &config, const PyStatus &status) {
  PyConfig_Clear(&config);
  if (PyStatus_IsExit(status)) // --version, -h and the like: printed already
    return status.exitcode;
  Py_ExitStatusException(status);
}

} // namespace

int run_program(const std::string &executable, const std::vector<std::string> &args) {
  // argv[0] is what CPython names itself by in its messages and in sys.orig_argv.
  std::vector<char *> argv{const_cast<char *>(executable.c_str())};
  for (const auto &arg : args)
    argv.push_back(const_cast<char *>(arg.c_str()));

  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.parse_argv = 1;
  // First of all setters: it preinitialises with -E, -I, -X utf8 taken into account, and the bytes
  // of the others are decoded by what it finds.
  auto status = PyConfig_SetBytesArgv(&config, static_cast<Py_ssize_t>(argv.size()), argv.data());
  if (!PyStatus_Exception(status))
    status = PyConfig_SetBytesString(&config, &config.executable, executable.c_str());
  if (!PyStatus_Exception(status))
    status = Py_InitializeFromConfig(&config);
  if (PyStatus_Exception(status))
    return give_up(config, status);
  PyConfig_Clear(&config);
  return Py_RunMain();
}

int run_as_python(int argc, char **argv) { return Py_BytesMain(argc, argv); }

} // namespace tracehost::interpreter
