// `tracehost doctor`: does all that the host needs fit together?
#pragma once

#include "cli/config.h"
#include "cli/installation.h"

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

// All checks, printed to stdout, and what is set by whom; the exit code.
int doctor(const interpreter::Environment &environment, const std::vector<Given> &settings,
           const Configuration &configuration);

std::string version_lines(const interpreter::Environment &environment);

} // namespace tracehost::cli
