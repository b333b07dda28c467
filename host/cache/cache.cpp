#include "cache/cache.h"

#include <algorithm>
#include <functional>

namespace tracehost {

std::shared_ptr<const Cache::List> Cache::list(std::uint64_t *version) const {
  std::lock_guard lock(mutex_);
  if (version)
    *version = version_;
  return list_;
}

Cache::List Cache::publish(SpecializationRef added) {
  List evicted;
  std::shared_ptr<const List> old;
  {
    std::lock_guard lock(mutex_);
    auto next = std::make_shared<List>();
    for (const auto &s : *list_)
      (s->signature.alive() ? *next : evicted).push_back(s);
    while (!next->empty() && next->size() + 1 > limit_) {
      const auto oldest = std::min_element(next->begin(), next->end(), [](auto &a, auto &b) {
        return a->last_used.load(std::memory_order_relaxed) <
               b->last_used.load(std::memory_order_relaxed);
      });
      evicted.push_back(*oldest);
      next->erase(oldest);
    }
    next->push_back(std::move(added));
    ++version_;
    old = std::exchange(list_, std::move(next));
  }
  if (!evicted.empty()) {
    std::vector<std::size_t> hashes;
    for (const auto &s : evicted)
      if (s->signature.alive())
        hashes.push_back(std::hash<std::string>()(text(s->signature)));
    std::lock_guard lock(mutex_);
    if (evicted_.size() + hashes.size() > kRemembered)
      evicted_.clear();
    evicted_.insert(hashes.begin(), hashes.end());
  }
  return evicted;
}

Cache::List Cache::clear() {
  std::lock_guard lock(mutex_);
  ++version_;
  return *std::exchange(list_, std::make_shared<const List>());
}

bool Cache::was_evicted(const std::string &signature_text) const {
  const auto hash = std::hash<std::string>()(signature_text);
  std::lock_guard lock(mutex_);
  return evicted_.contains(hash);
}

} // namespace tracehost
