#pragma once

#include "cache/specialization.h"
#include "runtime/bind.h"
#include "tracehost/spec.h"

#include <vector>

/// Functions as data for C++ programs.

namespace tracehost::runtime {

std::vector<Parameter> parameters_of(const Binder &binder);

/// `specialization` is one of an archive, or as one.
GraphSpec spec_of(const Specialization &specialization);

} // namespace tracehost::runtime
