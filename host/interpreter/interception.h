// Functions traced and decorators routed without a change of the script: `--trace`, `--intercept`.
//
// Problem: the Python part (the package tracehost_interception) has to be there before the program
// imports anything, in children too, and must cost nothing where nobody asked. Answer: the
// variables are asked for before Python starts; only then is the package imported, between start
// and program. What a script itself defines has to be decorated while it runs, and CPython has no
// hook for that: such a script is run by a line of -c that hands CPython its changed code.
#pragma once

#include <Python.h>

#include <string>

namespace tracehost::interpreter {

// Whether TRACEHOST_TRACE or TRACEHOST_INTERCEPT says anything.
bool interception_asked();

// Between PyConfig_Read and Py_InitializeFromConfig: has a script or -c whose own functions are
// asked for run by way of the package. The module that -m or a folder runs; empty: none.
PyStatus direct_main(PyConfig &config, std::wstring &module);

// After Py_InitializeFromConfig: imports the package and installs it. 0, or the exit code after a
// line on stderr.
int install_interception(const std::wstring &module);

} // namespace tracehost::interpreter
