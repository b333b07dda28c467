#include "cache/cache.h"

#include "signature/generalize.h"

#include <algorithm>
#include <functional>

namespace tracehost {
namespace {

std::size_t hash_of(const Signature &signature) {
  return std::hash<std::string>()(text(signature));
}

bool has(const std::vector<std::uint64_t> &numbers, const Specialization &one) {
  return std::find(numbers.begin(), numbers.end(), one.number) != numbers.end();
}

/// By user types, as far as they are above each other; then by sizes.
bool comes_before(const Specialization &a, const Specialization &b) {
  const bool below = has(a.above, b) || has(b.below, a);
  const bool above = has(a.below, b) || has(b.above, a);
  if (below != above)
    return below;
  return is_narrower(a.signature, b.signature);
}

} // namespace

std::vector<SpecializationRef> Cache::List::by_age() const {
  std::vector<SpecializationRef> result = all_;
  std::sort(result.begin(), result.end(),
            [](const auto &a, const auto &b) { return a->number < b->number; });
  return result;
}

/// First those that pass the check, the one used last at the front, though after those narrower
/// than it. Then those that have other checks.
std::vector<std::uint32_t> Cache::List::in_turn(const Found &number) const {
  std::vector<std::uint32_t> pass, unknown;
  for (std::uint32_t i = 0; i < all_.size(); ++i) {
    const auto serves = all_[i]->program->checks().serves(number);
    if (serves == Checks::Serves::yes)
      pass.push_back(i);
    else if (serves == Checks::Serves::unknown)
      unknown.push_back(i);
  }
  std::stable_sort(pass.begin(), pass.end(), [&](std::uint32_t a, std::uint32_t b) {
    return all_[a]->last_used.load(std::memory_order_relaxed) >
           all_[b]->last_used.load(std::memory_order_relaxed);
  });
  std::vector<std::uint32_t> result;
  const auto add = [&](std::uint32_t i) {
    if (std::find(result.begin(), result.end(), i) == result.end())
      result.push_back(i);
  };
  for (const std::uint32_t i : pass) {
    for (const std::uint32_t before : narrower(i))
      if (std::find(pass.begin(), pass.end(), before) != pass.end())
        add(before);
    add(i);
  }
  result.insert(result.end(), unknown.begin(), unknown.end());
  return result;
}

void Cache::List::insert(SpecializationRef added) {
  const auto wider = std::find_if(all_.begin(), all_.end(),
                                  [&](const auto &other) { return comes_before(*added, *other); });
  all_.insert(wider, std::move(added));
}

void Cache::List::note_narrower() {
  narrower_.assign(all_.size(), {});
  std::vector<bool> ordered; // whether it may come before or after others
  for (const auto &s : all_)
    ordered.push_back(s->signature.is_dynamic() || !s->above.empty() || !s->below.empty());
  for (std::uint32_t i = 0; i < all_.size(); ++i)
    for (std::uint32_t j = 0; j < i; ++j)
      if ((ordered[i] || ordered[j]) && comes_before(*all_[j], *all_[i]))
        narrower_[i].push_back(j);
}

std::shared_ptr<const Cache::List> Cache::list() const {
  std::lock_guard lock(mutex_);
  return list_;
}

Cache::Evicted Cache::publish(SpecializationRef added) {
  Evicted evicted;
  std::shared_ptr<const List> old;
  const std::size_t hash = hash_of(added->signature);
  {
    std::lock_guard lock(mutex_);
    eviction_.tick(list_->all_);
    eviction_.enter(*added, hash);
    auto next = std::make_shared<List>();
    const std::size_t count = list_->size(), from = count ? swept_ % count : 0;
    swept_ = from + kSwept;
    for (std::size_t i = 0; i < count; ++i) {
      const bool swept = (i + count - from) % count < kSwept;
      const auto &s = (*list_)[i];
      (swept && !s->signature.alive() ? evicted : next->all_).push_back(s);
    }
    while (!next->empty() && next->size() + 1 > limit_) {
      const auto least =
          next->all_.begin() + static_cast<std::ptrdiff_t>(eviction_.least(next->all_));
      evicted.push_back(*least);
      next->all_.erase(least);
    }
    next->insert(std::move(added));
    next->note_narrower();
    old = std::exchange(list_, std::move(next));
  }
  for (const auto &s : evicted) {
    if (!s->signature.alive())
      continue;
    const std::size_t gone = hash_of(s->signature); // a text is made without the lock
    std::lock_guard lock(mutex_);
    eviction_.remember(gone, *s);
  }
  return evicted;
}

void Cache::remove(const SpecializationRef &one) {
  std::shared_ptr<const List> old;
  std::lock_guard lock(mutex_);
  auto next = std::make_shared<List>();
  for (const auto &s : *list_)
    if (s != one)
      next->all_.push_back(s);
  next->note_narrower();
  old = std::exchange(list_, std::move(next));
}

Cache::Evicted Cache::clear() {
  std::shared_ptr<const List> old;
  {
    std::lock_guard lock(mutex_);
    old = std::exchange(list_, std::make_shared<const List>());
  }
  return {old->begin(), old->end()};
}

bool Cache::was_evicted(const std::string &signature_text) const {
  const auto hash = std::hash<std::string>()(signature_text);
  std::lock_guard lock(mutex_);
  return eviction_.remembers(hash);
}

} // namespace tracehost
