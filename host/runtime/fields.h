#pragma once

#include "runtime/bind.h"
#include "signature/signature.h"

#include <optional>
#include <string>

namespace tracehost::runtime {

/// A Map that lacks a field, or has one more, than what a graph takes in its place.
struct FieldMisfit {
  std::string path; ///< `batch`, `batches[0]`
  std::string expected, got;
  std::string text; ///< `argument 'batch' lacks the field 'scale'`
};

/// The first one among the arguments of a call, beside `signature`. nullopt: none.
std::optional<FieldMisfit> misfit_of_fields(const Signature &signature, const Binder &binder,
                                            const Bound &bound);

} // namespace tracehost::runtime
