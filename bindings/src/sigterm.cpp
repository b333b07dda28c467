#include "sigterm.h"

#include "base/forget_error.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

namespace tracehost::python {
namespace {

namespace py = pybind11;

constexpr auto kPatience = std::chrono::seconds(2);
int wakes[2] = {-1, -1};       ///< a pipe: the handler writes, the thread reads
std::atomic<pid_t> owner{0};   ///< the process that writes
std::atomic<bool> came{false}; ///< the signal
static_assert(std::atomic<pid_t>::is_always_lock_free, "a handler reads it");

void set_default() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &action, nullptr);
}

/// Runs in the signal's context.
void on_sigterm(int) {
  const int error = errno;
  if (owner != ::getpid()) { // between a fork and an exec
    set_default();
    ::raise(SIGTERM);
    return;
  }
  came = true;
  if (const char byte = 0; ::write(wakes[1], &byte, 1) != 1) {
    set_default();
    ::kill(::getpid(), SIGTERM);
  }
  errno = error;
}

bool is_ours() {
  struct sigaction now = {};
  return ::sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler == &on_sigterm;
}

void end() {
  if (is_ours())
    set_default();
  ::kill(::getpid(), SIGTERM);
}

void write_and_end(PyObject *write) {
  std::thread([] {
    std::this_thread::sleep_for(kPatience);
    end();
  }).detach();
  const PyGILState_STATE state = PyGILState_Ensure(); // does not return where Python has ended
  Py_XDECREF(PyObject_CallNoArgs(write));
  forget_error();
  PyGILState_Release(state);
  end();
}

/// Threads made here take no signals: those are for the threads of the program.
void start_thread(PyObject *write) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([write] {
    char byte = 0;
    while (::read(wakes[0], &byte, 1) < 0 && errno == EINTR) {
    }
    write_and_end(write);
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void in_child() {
  came = false;
  if (is_ours())
    set_default();
}

/// A call that the signal cut short may have led to the program's end. Runs when Python has ended.
void at_end() {
  if (came)
    end();
}

/// `write`: called at most once. Nothing where SIGTERM has a handler, or is ignored. Once for the
/// process.
void at_sigterm(const py::function &write) {
  struct sigaction action = {};
  if (::sigaction(SIGTERM, nullptr, &action) != 0 || action.sa_handler != SIG_DFL ||
      ::pipe2(wakes, O_CLOEXEC) != 0)
    return;
  owner = ::getpid();
  start_thread(py::object(write).release().ptr());
  ::pthread_atfork(nullptr, nullptr, &in_child);
  Py_AtExit(&at_end);
  action.sa_handler = &on_sigterm;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
}

} // namespace

void add_sigterm(py::module_ &module) { module.def("at_sigterm", &at_sigterm, py::arg("write")); }

} // namespace tracehost::python
