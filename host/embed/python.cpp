#include "embed/python.h"

#include "interpreter/library.h"
#include "runtime/ending.h"
#include "tracehost/embed.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <unistd.h>

namespace tracehost {
namespace embedding {
namespace {

using interpreter::Owned;

/// Never destroyed: calls may come while the process ends.
struct Python {
  std::mutex starting;                   ///< one start at a time
  std::mutex mutex;                      ///< of the rest; never held while asking for Python's lock
  std::condition_variable left;          ///< nobody is inside any more
  std::atomic<Bridge *> bridge{nullptr}; ///< owned by `_tracehost`; null: not started
  bool ours = false;                     ///< started here, not by the application
  bool stopped = false, ended = false, exiting = false;
  std::size_t inside = 0; ///< calls
  ::pid_t process = 0;    ///< that has started: a fork of it has none of its threads
};

constexpr auto kPatience = std::chrono::seconds(10); ///< of exit(), for what is in Python

thread_local std::size_t inside_here = 0; ///< calls of this thread

Python &python() {
  static auto *only = new Python;
  return *only;
}

struct Gil {
  PyGILState_STATE held = PyGILState_Ensure();
  ~Gil() { PyGILState_Release(held); }
};

/// Set by Python's atexit: from then on its lock may never be given again.
PyObject *ending(PyObject *, PyObject *) {
  const std::lock_guard lock(python().mutex);
  python().ended = true;
  return Py_NewRef(Py_None);
}

void watch_end() {
  static constinit PyMethodDef method{"tracehost_embed_ending", ending, METH_NOARGS, nullptr};
  const Owned function(PyCFunction_New(&method, nullptr));
  const Owned atexit(PyImport_ImportModule("atexit"));
  const Owned done(atexit && function
                       ? PyObject_CallMethod(atexit.get(), "register", "O", function.get())
                       : nullptr);
  PyErr_Clear();
}

/// A process has one Python: a second start() can't take another.
std::string no_tracehost(const std::string &why) {
  std::string result = "tracehost could not be imported by the embedded Python (" +
                       interpreter::prefix() + "): " + why;
  bool ours = false;
  {
    const std::lock_guard lock(python().mutex);
    ours = python().ours;
  }
  result += ours ? "\nThis Python runs now, and a process has one: name the environment that has "
                   "tracehost in the first start() of the process, "
                   "tracehost::embed::start({.python = ...}), or in TRACEHOST_PYTHON."
                 : "\nThe application has started this Python itself: put the site-packages folder "
                   "that has tracehost on its sys.path, or into Options::path.";
  return result;
}

/// Requires: GIL held.
Bridge *find_bridge() {
  if (python().bridge)
    return python().bridge;
  if (!Owned(PyImport_ImportModule("tracehost")))
    throw Error(no_tracehost(interpreter::take_failure()));
  auto *found = static_cast<Bridge *>(PyCapsule_Import(Bridge::kCapsule, 0));
  if (!found)
    throw Error("the tracehost package of the embedded Python does not serve C++ programs: " +
                interpreter::take_failure() +
                "\nInstall the one that this program was built with.");
  if (found->version != Bridge::kVersion)
    throw Error("the tracehost package of the embedded Python is of another version than "
                "libtracehost_embed. Install both from one build.");
  watch_end();
  return found;
}

/// Requires: python().mutex.
void check_runs() {
  if (python().stopped || python().ended)
    throw Error("this call needs Python, which was stopped (tracehost::embed::stop)");
}

} // namespace

InPython::InPython() {
  bool exiting = false;
  {
    std::unique_lock lock(python().mutex);
    if (!python().bridge)
      throw Error("Python has not been started: tracehost::embed::start()");
    exiting = python().exiting && inside_here == 0;
    if (exiting) {
      python().left.wait_for(lock, kPatience, [] { return python().inside == 0; });
    } else {
      check_runs();
      ++python().inside;
    }
  }
  if (exiting) {
    runtime::wait_for_end();
    throw Error("this call needs Python, and the process is ending");
  }
  ++inside_here;
  held_ = PyGILState_Ensure();
}

InPython::~InPython() {
  PyGILState_Release(held_);
  --inside_here;
  const std::lock_guard lock(python().mutex);
  --python().inside;
  python().left.notify_all();
}

namespace {

/// Of exit(). Python's atexit functions do not run: stop() runs them.
void at_exit(int status) {
  {
    const std::lock_guard lock(python().mutex);
    if (python().exiting || python().ended || !python().bridge || python().process != ::getpid())
      return runtime::end_calls(status);
  }
  const bool held = Py_IsInitialized() && PyGILState_Check();
  PyThreadState *own = held ? PyEval_SaveThread() : nullptr; // or those inside never leave
  runtime::end_calls(status); // a call that began before may still enter Python
  std::unique_lock lock(python().mutex);
  python().exiting = true;
  if (!python().left.wait_for(lock, kPatience, [] { return python().inside == inside_here; })) {
    std::fflush(nullptr); // an import that does not end
    ::_exit(status);
  }
  lock.unlock();
  if (own)
    PyEval_RestoreThread(own);
  if (!python().ours)
    return;
  PyGILState_Ensure(); // for good: threads of Python's stop here
  interpreter::flush_streams();
}

} // namespace

Bridge &InPython::bridge() const { return *python().bridge; }

void release(std::unique_ptr<PythonCallee> callee) {
  bool over = false;
  {
    const std::lock_guard lock(python().mutex);
    over = python().ended || python().exiting || !Py_IsInitialized();
  }
  if (over) {
    (void)callee.release();
    return;
  }
  const Gil gil;
  callee.reset();
}

} // namespace embedding

inline namespace TRACEHOST_ABI {
namespace embed {

using embedding::python;

void start(const Options &options) {
  {
    const std::lock_guard lock(python().mutex);
    embedding::check_runs();
  }
  try {
    bool ours = false;
    {
      // Held only while Python does not run yet, so a thread that waits here can't hold Python's
      // lock.
      const std::lock_guard starting(python().starting);
      const char *named = std::getenv("TRACEHOST_PYTHON");
      const bool given = !options.python.empty() || !named;
      ours = interpreter::start_library(given ? options.python : named);
    }
    if (ours) {
      const std::lock_guard lock(python().mutex);
      python().ours = true;
    }
    embedding::Bridge *found = nullptr;
    {
      const embedding::Gil gil;
      const interpreter::KeepSigint keep;
      interpreter::add_to_path(options.path);
      found = embedding::find_bridge();
    }
    runtime::set_exit_handler(&embedding::at_exit);
    runtime::watch_exit();
    const std::lock_guard lock(python().mutex);
    python().bridge = found;
    python().process = ::getpid();
  } catch (const Error &) {
    throw;
  } catch (const std::runtime_error &e) {
    throw Error(e.what());
  }
}

std::string report() {
  const embedding::InPython in;
  return in.bridge().report();
}

void stop() {
  std::unique_lock lock(python().mutex);
  if (!python().bridge || python().stopped)
    return;
  python().stopped = true;
  python().left.wait(lock, [] { return python().inside == 0; });
  const bool ends = python().ours && !python().ended;
  lock.unlock();
  if (!ends)
    return;
  const embedding::Gil gil;
  interpreter::end_library();
}

} // namespace embed
} // namespace TRACEHOST_ABI
} // namespace tracehost
