#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

/// What a trace assumed about the values of its inputs (docs/rules/value-reads.md): where the
/// body read one as a number, the graph is right for that number alone.
///
///     n = int(t)       t: slot 0, int64, "3"      serves calls in which t holds 3

namespace tracehost {

/// A number that the body computes and that a graph was made for.
struct CheckedNumber {
  std::string where; ///< the line that needs it, `net.py:12`
  std::string value; ///< `True`, `3`
  bool operator==(const CheckedNumber &) const = default;
};

/// How many elements a guarded tensor may have: they are compared at each call.
inline constexpr std::int64_t kMostGuarded = 64;

/// The values of an input that the body read.
struct ValueGuard {
  std::uint32_t input = 0; ///< of the graph: a slot; past the slots, a capture
  at::ScalarType dtype = at::kFloat;
  bool scalar = false; ///< without dimensions
  std::string bytes;   ///< the elements in order, each NaN the same; empty: not known
  std::string where;   ///< the line that read it first, `net.py:12`
};

/// Whether the values of such a tensor can be compared at each call.
bool can_be_guarded(const at::Tensor &t);
/// The guard that `t` fulfils now. Waits for its device. Requires: can_be_guarded().
ValueGuard guard_of(std::uint32_t input, const at::Tensor &t);
/// Hot for contiguous tensors on the CPU: no allocation while they hold the same. Waits for other
/// devices. Requires: `t`'s dtype and number of elements are those of the trace.
bool holds(const ValueGuard &guard, const at::Tensor &t);
/// `3`, `[1.0, 2.0]`; at most eight elements.
std::string text(const ValueGuard &guard);

} // namespace tracehost
