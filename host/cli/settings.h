// What is set for a command, by whom, and how it reaches the program and its children: by
// environment variables only.
//
// The order: option, variable, configuration files (config.h), default. What has been said by a
// stronger source, or what excludes it there (--inplace, --output), is not said again.
#pragma once

#include "cli/config.h"
#include "cli/split.h"

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

// Adds what variables and files say to this command. Throws UsageError where a variable is wrong,
// or
// --config cannot be read; problems within files are left in the result.
Configuration complete(Settings &settings);

// All that differs from the defaults, for any command; `settings` are those of this one.
std::vector<Given> all_settings(const Settings &settings, const Configuration &configuration);

// Checks that files can be written, and sets the variables of what all commands share. Throws
// UsageError.
void apply(Settings &settings);

// A command in Python: its options, one word each.
std::vector<std::string> words_for_python(const Settings &settings);

} // namespace tracehost::cli
