#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tracehost {

/// The thread's and the process's modes that an op's meaning depends on; part of every Signature
/// (docs/rules/signature.md) and probed at every call.
struct Context {
  std::uint64_t included = 0; ///< dispatch keys switched on for this thread (autocast is among
  std::uint64_t excluded = 0; ///< the excluded when off)
  bool grad = true;
  bool inference = false;
  bool deterministic = false;
  at::ScalarType default_dtype = at::kFloat;
  at::ScalarType autocast_cpu = at::ScalarType::Undefined;  ///< Undefined: off
  at::ScalarType autocast_cuda = at::ScalarType::Undefined; ///< Undefined: off
  std::int32_t default_device = 0; ///< 0: none set; else type << 8 | (index + 1)

  /// Requires: no TorchFunction or TorchDispatch mode but a DeviceContext is active (the front end
  /// rejects others and fills default_device).
  static Context now();
  bool operator==(const Context &) const = default;
  bool autocast() const {
    return autocast_cpu != at::ScalarType::Undefined || autocast_cuda != at::ScalarType::Undefined;
  }
};

/// One differing field: {"grad mode", "on", "off"}.
struct ContextDifference {
  std::string field, before, after;
};
std::vector<ContextDifference> differences(const Context &before, const Context &after);

} // namespace tracehost
