// What the host options say, and how it reaches the program and its children: by environment
// variables only.
#pragma once

#include "cli/split.h"

#include <stdexcept>
#include <string>

namespace tracehost::cli {

// Something the user typed is wrong: the message is printed as it is, the exit code is 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Settings {
  std::string report; // empty: none; "-": stderr; else a file
  std::string python;
  bool version = false;
  bool help = false;
  std::vector<std::string> command; // a command in Python: its options, one word each
};

// Parses the host options of a split command line; throws UsageError.
Settings parse(const Split &split);

// Fills in what was not given from the environment twins, checks that the report can be written,
// and sets the variables that the Python package reads. Throws UsageError.
void apply(Settings &settings);

} // namespace tracehost::cli
