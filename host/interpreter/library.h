// Python in another application's process.
//
// Problem: CPython takes a process to be its own: it installs a handler for SIGINT, expects its
// symbols to be visible to every library, ends threads when it ends. Answer: it starts isolated;
// Ctrl-C is the application's before and after; libpython is made visible where it was loaded
// privately (a plug-in opened with RTLD_LOCAL); it is never finalised by us.
#pragma once

#include <Python.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace tracehost::interpreter {

struct Release {
  void operator()(PyObject *object) const { Py_DECREF(object); }
};
using Owned = std::unique_ptr<PyObject, Release>;

// The text of the pending exception, which is cleared. Requires: GIL held.
std::string take_failure();

// CPython installs its handler when somebody imports `signal`, as subprocess, asyncio and torch do:
// it is imported here, once, and Ctrl-C given back.
class KeepSigint {
public:
  KeepSigint() { sigaction(SIGINT, nullptr, &before_); }
  ~KeepSigint() { sigaction(SIGINT, &before_, nullptr); }
  KeepSigint(const KeepSigint &) = delete;
  KeepSigint &operator=(const KeepSigint &) = delete;

private:
  struct sigaction before_ {};
};

// Starts Python, if it does not run: then false. `python`: an interpreter or a venv's directory;
// empty: as the host finds it. The calling thread does not hold the GIL afterwards. Throws
// std::runtime_error with a sentence. Requires: no other thread in here.
bool start_library(const std::string &python);

// Puts `path` in front of sys.path, the first one foremost. Throws std::runtime_error. Requires:
// GIL held.
void add_to_path(const std::vector<std::string> &path);

// What is left to do when an application ends: Python's atexit functions run, its streams are
// flushed. The interpreter stays. Requires: GIL held.
void end_library();

// Of sys.stdout and sys.stderr. Requires: GIL held.
void flush_streams();

// sys.prefix: the environment that runs. Requires: GIL held.
std::string prefix();

} // namespace tracehost::interpreter
