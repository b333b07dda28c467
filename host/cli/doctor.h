// What `tracehost doctor` says where its checks, which are in Python, cannot run.
#pragma once

#include "interpreter/environment.h"

#include <string>

namespace tracehost::cli {

// Whether all is there that Python starts with, and `why` it did not run the checks; as text or as
// one JSON document.
std::string checks_without_python(const interpreter::Environment &environment,
                                  const std::string &why, bool json);

} // namespace tracehost::cli
