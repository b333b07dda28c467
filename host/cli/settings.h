// What is set for a command, by whom, and how it reaches the program and its children: by
// environment variables only.
//
// An option wins over its variable, and over the variable of an option that it excludes (--inplace,
// --output).
#pragma once

#include "cli/split.h"
#include "cli/values.h"

namespace tracehost::cli {

struct Settings {
  Command command = Command::run;
  std::vector<Given> given; // each option once
  bool version = false;
  bool help = false;

  const Given *find(std::string_view name) const;
  // Its value; empty: there is none.
  std::string text(std::string_view name) const;
  bool is_on(std::string_view name) const;
};

// The options of a split command line; throws UsageError.
Settings parse(const Split &split);

// Adds what variables say to this command. Throws UsageError if a variable has a wrong value.
void complete(Settings &settings);

// All that differs from the defaults, for any command; `settings` are those of this one. Throws
// UsageError if a variable has a wrong value.
std::vector<Given> all_settings(const Settings &settings);

// `python` of an option that all commands share, else `notebook.timeout`.
std::string full_name(const OptionEntry &option, Command command);

// Checks that files can be written, and sets the variables of what all commands share. Throws
// UsageError.
void apply(Settings &settings);

// A command in Python: its options, one word each.
std::vector<std::string> words_for_python(const Settings &settings);

} // namespace tracehost::cli
