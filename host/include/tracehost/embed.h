#pragma once

#include "tracehost/function.h"

#include <string>
#include <vector>

/// Functions of Python source, called from C++. Links `tracehost::embed`, which brings libpython.
///
///     tracehost::embed::start({.path = {"models"}});
///     // step of models/decoder.py
///     tracehost::Function step = tracehost::embed::import("decoder", "step");
///     // The first call traces in Python, later ones run the graph.
///     at::Tensor y = step(x, 3);
///
/// A call that a graph serves runs on the calling thread without Python and without its lock. What
/// the graph depends on besides its arguments (parameters, attributes, globals) is *as it was when
/// Python was last asked*: by a call that no graph served, or by refresh(). Tensors that
/// Python changes in place are seen at once, as they are the same memory. Other calls wait for
/// Python's lock, and trace; those that need the same trace wait for one.
///
/// Graphs that only Python can run (py_function, attributes that the body stores) are run by it.

namespace tracehost {
inline namespace TRACEHOST_ABI {

namespace embed {

struct Options {
  /// A Python, or the directory of a virtual environment: one that has torch and tracehost. Empty:
  /// that of TRACEHOST_PYTHON, VIRTUAL_ENV, or the one that tracehost was built for.
  std::string python{};
  std::vector<std::string> path{}; ///< put in front of `sys.path`, the first one foremost
};

/// Starts Python in this process, with its own settings: no handler for SIGINT, no script's
/// directory on the path. Where the application has started Python itself, that one is used. A
/// second call only adds to the path. Throws Error. Safe from any thread.
TRACEHOST_API void start(const Options &options = {});

/// A tracehost.Function by its name in a module: `import("decoder", "step")`, `import("decoder.py",
/// "Model.forward")`. The module is imported, once; a file that ends in `.py` is looked for in
/// `sys.path` if it is no path by itself. Starts Python if need be. Throws PythonError for what the
/// import raises, Error if there is no Function of that name.
TRACEHOST_API Function import(const std::string &module, const std::string &name);

/// Python's table of traces, their causes and costs: `tracehost.report()`.
TRACEHOST_API std::string report();

/// Ends the calls under way, of Python's Functions as of archives (function.h).
using tracehost::interrupt;

/// Waits for calls that are in Python, and lets none in any more: they throw Error. What runs
/// without Python still does. Python's atexit functions run, unless the application has started it
/// itself; the interpreter stays until the process ends. Not needed before an exit of the process.
TRACEHOST_API void stop();

} // namespace embed
} // namespace TRACEHOST_ABI
} // namespace tracehost
