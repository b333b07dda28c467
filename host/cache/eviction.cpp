#include "cache/eviction.h"

#include <algorithm>
#include <cmath>

namespace tracehost {

// A quarter of the cache's size: at the default limit, one used at every turn outlasts some 70 new
// ones without a use, and a tenfold rebuild time is worth 50 traces of waiting.
Eviction::Eviction(std::size_t limit) : half_life_(std::max(1.0, static_cast<double>(limit) / 4)) {}

double Eviction::aged(const Use &use) const {
  return use.frequency * std::exp2(-static_cast<double>(tick_ - use.tick) / half_life_);
}

void Eviction::tick(const std::vector<SpecializationRef> &live) {
  ++tick_;
  for (const auto &s : live) {
    const std::uint64_t hits = s->hits.load(std::memory_order_relaxed);
    if (hits != s->use.hits)
      s->use = {hits, tick_, aged(s->use) + 1};
  }
}

void Eviction::enter(Specialization &added, std::size_t hash) {
  const auto former = gone_.find(hash);
  const double before = former == gone_.end() ? 0 : aged(former->second);
  added.use = {added.hits.load(std::memory_order_relaxed), tick_, before + 1};
}

double Eviction::worth(const Specialization &s) const {
  const auto log2 = [](auto value) { return std::log2(std::max(1.0, static_cast<double>(value))); };
  return log2(s.trace_ns) - log2(s.bytes) + std::log2(s.use.frequency) +
         static_cast<double>(s.use.tick) / half_life_;
}

std::size_t Eviction::least(const std::vector<SpecializationRef> &live) const {
  std::size_t found = 0;
  for (std::size_t i = 1; i < live.size(); ++i) {
    const double a = worth(*live[i]), b = worth(*live[found]);
    if (a < b || (a == b && live[i]->last_used.load(std::memory_order_relaxed) <
                                live[found]->last_used.load(std::memory_order_relaxed)))
      found = i;
  }
  return found;
}

void Eviction::remember(std::size_t hash, const Specialization &evicted) {
  if (gone_.size() >= kRemembered && !gone_.contains(hash))
    gone_.clear();
  gone_[hash] = evicted.use;
}

} // namespace tracehost
