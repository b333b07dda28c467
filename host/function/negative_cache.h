#pragma once

#include "signature/signature.h"

#include <algorithm>
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
///
/// Calls that graphs serve but for a failed check have rows of their own. An abandoned trace of one
/// (A: a value beyond the limits, or unsupported) backs off at once, and no hit starts it from the
/// beginning. The graphs are still tried, until more calls fail their checks than hit; then they
/// are tried at every 64th call (Row::balance).
///
///     T h T h ... A  32 bodies  A  64 bodies ...
class NegativeCache {
public:
  enum class Why : std::uint8_t {
    rejected, ///< the trace was unsupported: for calls whose Stance lets the body continue
    wrong,    ///< the graph did not do what the body did: for all
    too_wide, ///< the trace was unsupported, and made for more than the call
  };
  static constexpr std::uint32_t kTraces = 8, kFirst = 32, kMost = 1024;
  /// Calls that run the body between two that try graphs whose checks mostly fail.
  static constexpr std::uint32_t kPause = 63;

  /// What a call is, for its row.
  struct Call {
    const Signature &signature;
    bool failed = false; ///< graphs serve it but for a failed check
  };

  /// Whether a call that no graph serves runs the body as it is. Counts the call. `goes_on`: its
  /// Stance lets the body continue.
  bool skips(const Call &call, bool goes_on);
  bool is_wrong(const Signature &signature) const { return row({signature}).why == Why::wrong; }
  bool is_too_wide(const Signature &signature) const {
    return row({signature}).why == Why::too_wide;
  }
  /// How many such calls back off from now on. Counts nothing.
  std::uint32_t left(const Call &call) const { return row(call).left; }
  void add(const Signature &signature, Why why);
  /// Counts a trace for such a call. `hits`: of the Function until now. Returns how many calls skip
  /// from now on; 0: none.
  std::uint32_t traced(const Call &call, std::uint64_t hits);
  /// A trace for such a call was abandoned.
  void abandoned(const Call &call);
  /// All checks of a call with `signature` have failed, and skips(). `hits`: of those graphs until
  /// now. True if the next kPause calls do not try them.
  bool pauses(const Signature &signature, std::uint64_t hits);
  void clear();

private:
  struct Row {
    std::optional<Why> why;
    std::uint64_t hits = 0;   ///< of the Function, at the last trace; or of the graphs, in pauses()
    std::uint32_t traces = 0; ///< since the last hit
    std::uint32_t skipped = 0; ///< calls that the last time skipped, or skips
    std::uint32_t left = 0;    ///< of those
    /// 2 for each call whose checks failed, less the hits between. A failed call costs the start of
    /// a graph, a hit saves the half of a body.
    std::uint32_t balance = 0;
    void back_off() { left = skipped = skipped ? std::min(skipped * 2, kMost) : kFirst; }
  };
  static constexpr std::size_t kSignatures = 1024;
  static constexpr std::uint32_t kBalance = 16; ///< 8 failed calls in a row
  Row row(const Call &call) const;
  Row &made(std::size_t hash);

  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, Row> rows_;
  std::atomic<bool> skips_any_ = false; ///< while no row skips a call, a miss hashes nothing
};

} // namespace tracehost
