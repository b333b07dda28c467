// Cuts the command line in two: host options, and what others read to the letter. By hand, because
// an option parser that sees the script's arguments takes some of them for its own.
#pragma once

#include "cli/options.h"

#include <functional>
#include <string>
#include <vector>

namespace tracehost::cli {

struct Split {
  std::string command;              // empty: no command's word was given, as for `run`
  std::vector<std::string> options; // of the host, `--name=value` each
  std::vector<std::string> rest;    // Python's arguments; else the command's words, unparsed
  std::string unknown_word; // the first word, where it is no command, no file and nothing Python
                            // knows

  bool is_program() const { return command.empty() || command == "run"; }
};

// `exists` returns whether a file or directory of that name exists.
Split split(const std::vector<std::string> &args,
            const std::function<bool(const std::string &)> &exists);

} // namespace tracehost::cli
