// Cuts the command line in two: host options, and what Python gets. By hand, because an option
// parser that sees the script's arguments takes some of them for its own.
#pragma once

#include "cli/table.h"

#include <functional>
#include <string>
#include <vector>

namespace tracehost::cli {

struct Split {
  Command command = Command::run;
  bool named = false;                    // the command's word was given
  std::vector<std::string> host_options; // all long; a left-out optional value is filled in
  std::vector<std::string> rest;         // run: Python's arguments; else the command's own words
  std::string
      unknown_word; // the first word, where it is no command, no file and nothing Python knows
};

// `exists` returns whether a file or directory of that name exists.
Split split(const std::vector<std::string> &args,
            const std::function<bool(const std::string &)> &exists);

} // namespace tracehost::cli
