// What is installed in an environment, read from its files: no Python is started and no torch
// imported.
#pragma once

#include "interpreter/environment.h"

#include <filesystem>
#include <map>
#include <string>

namespace tracehost::cli {

struct Installation {
  std::filesystem::path site_packages;
  std::string torch; // "2.15.0+cu132"; empty: not installed
  std::map<std::string, std::string>
      built;           // of the tracehost package: version, python, torch, libpython
  bool module = false; // the extension module is there
};

Installation inspect(const interpreter::Environment &environment);

} // namespace tracehost::cli
