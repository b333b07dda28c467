// Runs a Python program in this process, as the python command does.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tracehost::interpreter {

// As `python ARGS...`, with sys.executable = executable. Returns the exit code; a signal that ends
// the program ends this process too, as CPython has it.
int run_program(const std::string &executable, const std::vector<std::string> &args);

// As run_program, of a module with its arguments. Where Python cannot start, or `package` cannot be
// imported: the exit code of `failed`, which gets a sentence on why.
int run_module(const std::string &executable, const std::string &package,
               const std::vector<std::string> &args,
               const std::function<int(const std::string &)> &failed);

// The python personality: argv untouched, everything as CPython decides.
int run_as_python(int argc, char **argv);

} // namespace tracehost::interpreter
