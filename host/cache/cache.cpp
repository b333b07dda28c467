#include "cache/cache.h"

#include "signature/relax.h"

#include <algorithm>
#include <functional>

namespace tracehost {

std::vector<SpecializationRef> Cache::List::by_age() const {
  std::vector<SpecializationRef> result = all_;
  std::sort(result.begin(), result.end(),
            [](const auto &a, const auto &b) { return a->number < b->number; });
  return result;
}

void Cache::List::insert(SpecializationRef added) {
  const auto wider = std::find_if(all_.begin(), all_.end(), [&](const auto &other) {
    return is_narrower(added->signature, other->signature);
  });
  all_.insert(wider, std::move(added));
}

void Cache::List::note_narrower() {
  narrower_.assign(all_.size(), {});
  for (std::uint32_t i = 0; i < all_.size(); ++i)
    for (std::uint32_t j = 0; all_[i]->signature.relaxed() && j < i; ++j)
      if (is_narrower(all_[j]->signature, all_[i]->signature))
        narrower_[i].push_back(j);
}

std::shared_ptr<const Cache::List> Cache::list(std::uint64_t *version) const {
  std::lock_guard lock(mutex_);
  if (version)
    *version = version_;
  return list_;
}

Cache::Evicted Cache::publish(SpecializationRef added) {
  Evicted evicted;
  std::shared_ptr<const List> old;
  {
    std::lock_guard lock(mutex_);
    auto next = std::make_shared<List>();
    for (const auto &s : *list_)
      (s->signature.alive() ? next->all_ : evicted).push_back(s);
    while (!next->empty() && next->size() + 1 > limit_) {
      const auto oldest =
          std::min_element(next->begin(), next->end(), [](const auto &a, const auto &b) {
            return a->last_used.load(std::memory_order_relaxed) <
                   b->last_used.load(std::memory_order_relaxed);
          });
      evicted.push_back(*oldest);
      next->all_.erase(oldest);
    }
    next->insert(std::move(added));
    next->note_narrower();
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

Cache::Evicted Cache::clear() {
  std::shared_ptr<const List> old;
  {
    std::lock_guard lock(mutex_);
    ++version_;
    old = std::exchange(list_, std::make_shared<const List>());
  }
  return {old->begin(), old->end()};
}

bool Cache::was_evicted(const std::string &signature_text) const {
  const auto hash = std::hash<std::string>()(signature_text);
  std::lock_guard lock(mutex_);
  return evicted_.contains(hash);
}

} // namespace tracehost
