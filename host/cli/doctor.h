// `tracehost doctor`: does all that the host needs fit together, and what is set by whom?
//
// What the installed files say is checked first. Then a child process makes the checks that need a
// running Python (bindings/tracehost_commands/doctor.py): it imports torch, once, and its lines are
// read as they come.
#pragma once

#include "cli/installation.h"
#include "cli/settings.h"

#include <string>
#include <vector>

namespace tracehost::cli {

enum class Verdict { ok, warn, fail };

struct Finding {
  Verdict verdict;
  std::string what;
  std::string fix; // empty when all is well
};

// The checks that need no Python; separate, so that they can be tested on made-up installations.
std::vector<Finding> check(const interpreter::Environment &environment, const Installation &found);

// Findings on variables whose names look like those of tracehost, and are not.
std::vector<Finding> check_variables(const char *const *environment);

// A line of the child process, `WARN<tab>what<tab>fix`; nullopt if it is none.
std::optional<Finding> finding_of(const std::string &line);

// All checks, printed to stdout, and what is set; as one JSON document if `json`. The exit code.
int doctor(const interpreter::Environment &environment, const std::vector<Given> &settings,
           bool json);

std::string version_lines(const interpreter::Environment &environment);

} // namespace tracehost::cli
