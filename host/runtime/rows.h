#pragma once

#include "tracehost/function.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Requests as rows of one call: joined along dimension 0 of their tensors, and split again.

namespace tracehost::runtime {

using Arguments = std::vector<Argument>;

/// How many rows the tensors have; nullopt where they have none, or differ: it runs by itself.
std::optional<std::int64_t> rows_of(const Arguments &request);

/// Whether two requests differ in their rows alone.
bool can_join(const Arguments &a, const Arguments &b);

/// One call for all. Requires: can_join() of the first and each.
Arguments joined(std::span<const Arguments *const> requests);

/// Rows `start` to `start + count` of the result of a call of `total` rows. nullopt: a part of the
/// result is not by row, so the request needs a call of its own.
std::optional<Value> rows(const Value &result, std::int64_t start, std::int64_t count,
                          std::int64_t total);

} // namespace tracehost::runtime
