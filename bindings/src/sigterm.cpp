#include "sigterm.h"

#include "base/forget_error.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

namespace tracehost::python {
namespace {

namespace py = pybind11;

constexpr auto kForTheGil = std::chrono::seconds(2), kForTheFiles = std::chrono::seconds(30);
sem_t arrivals;                ///< posted by the handler; needs no descriptor
std::atomic<pid_t> owner{0};   ///< the process that writes
std::atomic<bool> came{false}; ///< the signal
std::atomic<bool> has_gil{false};
static_assert(std::atomic<pid_t>::is_always_lock_free, "a handler reads it");

/// The default ends the process, though another handler has come since, which has called this one.
void end() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &action, nullptr);
  ::kill(::getpid(), SIGTERM);
}

/// Runs in the signal's context.
void on_sigterm(int) {
  const int error = errno;
  if (owner != ::getpid()) { // between a fork and an exec
    end();
  } else {
    came = true;
    ::sem_post(&arrivals);
  }
  errno = error;
}

void end_after(std::chrono::seconds patience, bool unless_has_gil) {
  std::thread([=] {
    std::this_thread::sleep_for(patience);
    if (!unless_has_gil || !has_gil)
      end();
  }).detach();
}

void write_and_end(PyObject *write) {
  end_after(kForTheGil, /*unless_has_gil=*/true);
  end_after(kForTheFiles, /*unless_has_gil=*/false);
  const PyGILState_STATE state = PyGILState_Ensure(); // does not return where Python has ended
  has_gil = true;
  Py_XDECREF(PyObject_CallNoArgs(write));
  forget_error();
  PyGILState_Release(state);
  end();
}

/// Its threads take no signals: those are for the threads of the program.
void start_thread(PyObject *write) {
  struct Blocked {
    Blocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  } const blocked;
  std::thread([write] {
    while (::sem_wait(&arrivals) != 0) {
    }
    try {
      write_and_end(write);
    } catch (const std::exception &) { // no further thread
      end();
    }
  }).detach();
}

void in_child() {
  came = false;
  struct sigaction now = {};
  if (::sigaction(SIGTERM, nullptr, &now) != 0 || now.sa_handler != &on_sigterm)
    return;
  now.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &now, nullptr);
}

/// A call that the signal cut short may have led to the program's end. Runs when Python has ended.
void at_end() {
  if (came)
    end();
}

/// `write`: called at most once. Nothing where SIGTERM has a handler, or is ignored, as the kernel
/// does for the first process of a container. Once for the process.
void at_sigterm(const py::function &write) {
  struct sigaction action = {};
  if (::getpid() == 1 || ::sigaction(SIGTERM, nullptr, &action) != 0 ||
      action.sa_handler != SIG_DFL || ::sem_init(&arrivals, 0, 0) != 0)
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
