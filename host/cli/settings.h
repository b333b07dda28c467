// What is set for a program, by whom, and how it reaches the program and its children: by
// environment variables only.
//
// An option wins over its variable, and over the variable of an option that it excludes (--eager,
// --stance).
#pragma once

#include "cli/split.h"

#include <stdexcept>

namespace tracehost::cli {

// Something the user typed is wrong: the message is printed as it is, the exit code is 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `--reprot`, `docter`: the commands in Python say what is meant.
struct Misspelt : UsageError {
  using UsageError::UsageError;
};

struct Given {
  const Option *option;
  std::vector<std::string> values; // of a flag `true` or `false`
  std::string origin;              // `--stance`, `TRACEHOST_STANCE`
};

struct Settings {
  std::vector<Given> given; // each option once
  bool version = false;
  bool help = false;

  const Given *find(std::string_view name) const;
};

// The options of a split command line. Throws UsageError.
Settings parse(const Split &split);

// Adds what variables say. Throws UsageError if a variable has a wrong value.
void complete(Settings &settings);

// Checks that files can be written, and sets the variables. Throws UsageError.
void apply(Settings &settings);

// For a command in Python: the variables of a run's files and limits are not its own.
void leave_out_runs_own();

// The path, made absolute. `-` stays, `~/` is the user's home.
std::string absolute(const std::string &path);

} // namespace tracehost::cli
