// `-W error::tracehost.RetraceWarning`, and the same in PYTHONWARNINGS.
//
// Problem: Python imports the class of such an entry before it knows where packages are. It fails,
// says "Invalid -W option ignored", and would import torch if it did not. Answer: Python starts
// without these entries. Before the program runs, each becomes a filter in its place among the
// others. The filter's class stands for tracehost's: it asks tracehost for its class once the
// program has imported tracehost, and fits no warning until then. sys.warnoptions and
// PYTHONWARNINGS are as given, so children get the entries as Python hands them on.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

namespace tracehost::interpreter {

// Entries that were taken out of a configuration.
class WarningOptions {
public:
  // Whether an entry may be meant: a quick look at arguments and variable. Others cost nothing.
  static bool may_be_given(const std::vector<std::string> &args);

  // Takes the entries out. Requires: PyConfig_Read was called, Py_InitializeFromConfig was not.
  PyStatus take(PyConfig &config);
  // Makes filters of them. Requires: Python runs, the program does not yet. A line on stderr says
  // which entry is wrong.
  void install();

private:
  std::vector<std::wstring> all_; // as sys.warnoptions has them; empty: none was taken
  std::string variable_;          // PYTHONWARNINGS as given
  bool changed_variable_ = false;
};

} // namespace tracehost::interpreter
