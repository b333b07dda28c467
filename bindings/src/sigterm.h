#pragma once

#include <pybind11/pybind11.h>

/// What is written at exit is written at SIGTERM, too, where the program has no handler for it.
///
/// Problem: at SIGTERM's default a process ends without a word, so the figures of a job that a
/// scheduler ends are lost. A handler of Python's would change what getsignal() says, and waits for
/// C code to return. Answer: a handler below Python's wakes a thread. The thread asks for the GIL,
/// writes, restores the default and raises the signal again: the status is -15, as without it.
/// Where the GIL does not come within two seconds, nothing is written. A handler of the program
/// replaces this one; a forked child has the default. The first process of a container has none of
/// this: the kernel ignores the default there.

namespace tracehost::python {

void add_sigterm(pybind11::module_ &module);

} // namespace tracehost::python
