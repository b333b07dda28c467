#pragma once

#include "cache/specialization.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

/// What to evict: the Specialization of the least worth,
///
///     worth = rebuild time * frequency / bytes
///
/// the Greedy-Dual-Size-Frequency measure (L. Cherkasova, HPL-98-69R1, 1998) with LRFU's frequency,
/// which ages (D. Lee et al., IEEE Transactions on Computers 50(12), 2001): each use counts
/// 2^(-age / half-life).
///
/// Time runs in traces: one tick each. A Specialization that served any number of hits between two
/// traces was used once: had it been missing there, it would have been rebuilt once. So a hit needs
/// only the counter that it increments anyway, and a hot loop does not keep its Specialization
/// forever. A new Specialization was used once, by the call that traced it; one that comes back
/// after its eviction has its former uses, aged. So what comes once goes before what comes again,
/// and a new working set gets in however hot the old one was.

namespace tracehost {

class Eviction {
public:
  explicit Eviction(std::size_t limit);

  /// A trace was made: the uses since the last one are counted into those of `live`.
  void tick(const std::vector<SpecializationRef> &live);
  /// `added` was traced in this tick; `hash`: of its Signature's text.
  void enter(Specialization &added, std::size_t hash);
  /// The index of the least worth; of equals the one not used for longest. Requires: not empty.
  std::size_t least(const std::vector<SpecializationRef> &live) const;

  /// Keeps what is needed should it come back: at most kRemembered are.
  void remember(std::size_t hash, const Specialization &evicted);
  bool remembers(std::size_t hash) const { return gone_.contains(hash); }

private:
  double aged(const Use &use) const;
  /// log2 of the worth, but for what is the same for all: it does not change while unused.
  double worth(const Specialization &specialization) const;

  std::uint64_t tick_ = 0;
  const double half_life_;
  std::unordered_map<std::size_t, Use> gone_; ///< by hash of the text
  static constexpr std::size_t kRemembered = 1024;
};

} // namespace tracehost
