#pragma once

#include "signature/signature.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace tracehost {

/// The Signatures whose calls run the body as it is. Remembers hashes: of two Signatures with one
/// hash the second runs without a graph, too, which is slower, and right. Safe from any thread.
///
/// A Signature that has no graph is not tried again (Why). Traces that have stopped to pay back off
/// (docs/guides/retrace-warnings.md): after 8 traces in a row without a hit, the next 32 calls with
/// that Signature run the body. The call after them is traced again. If no hit follows, 64 calls
/// run the body, and so on up to 1,024; a hit starts from the beginning. Traces with another reason
/// do not count: other arguments, an outcome of a read, an eviction.
///
///     T T T T T T T T  32 bodies  T  64 bodies  T h h h ...
class NegativeCache {
public:
  enum class Why : std::uint8_t {
    rejected, ///< the trace was unsupported: for calls whose Stance lets the body continue
    wrong,    ///< the graph did not do what the body did: for all
  };
  static constexpr std::uint32_t kTraces = 8, kFirst = 32, kMost = 1024;

  /// Whether a call that no graph serves runs the body as it is. Counts the call. `goes_on`: its
  /// Stance lets the body continue.
  bool skips(const Signature &signature, bool goes_on);
  bool is_wrong(const Signature &signature) const { return row(signature).why == Why::wrong; }
  /// How many calls with `signature` back off from now on. Counts nothing.
  std::uint32_t left(const Signature &signature) const { return row(signature).left; }
  void add(const Signature &signature, Why why);
  /// Counts a trace for a call with `signature`. `hits`: of the Function until now. Returns how
  /// many calls skip from now on; 0: none.
  std::uint32_t traced(const Signature &signature, std::uint64_t hits);
  void clear();

private:
  struct Row {
    std::optional<Why> why;
    std::uint64_t hits = 0;    ///< of the Function, at the last trace
    std::uint32_t traces = 0;  ///< since the last hit
    std::uint32_t skipped = 0; ///< calls that the last time skipped, or skips
    std::uint32_t left = 0;    ///< of those
  };
  static constexpr std::size_t kSignatures = 1024;
  Row row(const Signature &signature) const;
  Row &made(std::size_t hash);

  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, Row> rows_;
  std::atomic<bool> skips_any_ = false; ///< while no row skips a call, a miss hashes nothing
};

} // namespace tracehost
