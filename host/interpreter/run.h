// Runs a Python program in this process, as the python command does.
#pragma once

#include <string>
#include <vector>

namespace tracehost::interpreter {

// As `python ARGS...`, with sys.executable = executable. Returns the exit code; a signal that ends
// the program ends this process too, as CPython has it.
int run_program(const std::string &executable, const std::vector<std::string> &args);

// The python personality: argv untouched, everything as CPython decides.
int run_as_python(int argc, char **argv);

} // namespace tracehost::interpreter
