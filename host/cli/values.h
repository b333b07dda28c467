// What a setting was set to, where, and whether it may be.
#pragma once

#include "cli/table.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace tracehost::cli {

// Something the user typed is wrong: the message is printed as it is, the exit code is 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Given {
  const OptionEntry *option;
  Command command;                 // whose it is; `run` for a shared one
  std::vector<std::string> values; // of a flag `true` or `false`; empty: said to be off
  std::string origin;              // `--jobs`, `TRACEHOST_NOTEBOOK_JOBS`

  bool is_flag() const { return option->takes == Takes::nothing; }
  // A flag that is set, or a value that is there.
  bool is_on() const { return is_flag() ? values.front() == "true" : !values.empty(); }
};

// `a non-negative number`, `default, eager or fail_on_miss`
std::string what_it_takes(const OptionEntry &option);

// Throws UsageError unless each value is of the option's kind. `said_by` begins the message. The
// values of a flag become `true` or `false`.
void check_values(Given &given, const std::string &said_by);

// Makes the path of a file or folder absolute. `-` stays, `~/` is the user's home.
void make_absolute(Given &given);

} // namespace tracehost::cli
