// Configuration files: where they are, and what they say.
//
// tracehost.toml, or [tool.tracehost] of a pyproject.toml, has a key for each option. Those that
// `run` knows stand at the top, each other command's own in a table of its name:
//
//     report = "report.txt"
//     [notebook]
//     timeout = 60
//
// Read by toml++. Where no file is, nothing is read or parsed.
#pragma once

#include "cli/values.h"

#include <filesystem>

namespace tracehost::cli {

struct Problem {
  std::string text; // `./tracehost.toml:3: unknown key ...`
  bool fatal;       // else a warning
};

struct Configuration {
  std::vector<std::filesystem::path> files; // that were read, the strongest first
  std::vector<std::vector<Given>> given;    // by file
  std::vector<Problem> problems;
};

// What `--config` (empty: not said) and `--no-config` lead to. Throws UsageError if that file
// cannot be read.
Configuration read_configuration(const std::string &file, bool none);

// What one file says. `shown` begins origins and messages.
void read_file(const std::filesystem::path &path, const std::string &shown,
               Configuration &configuration);

// A key of a file: `python`, `notebook.timeout`.
std::string key(const OptionEntry &option, Command command);

// Whether it may stand in a file: not what says which file.
bool has_key(const OptionEntry &option);

} // namespace tracehost::cli
