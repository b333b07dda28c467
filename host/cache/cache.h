#pragma once

#include "cache/eviction.h"
#include "cache/specialization.h"

#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tracehost {

/// A Function's live Specializations. Safe from any thread; no user code runs under its lock, and
/// nothing is destroyed under it.
///
/// In the list a Specialization comes before all wider ones. A wider one has the same sizes with
/// some of them dynamic, or supertypes of its user types. So the first one that serves a request is
/// the most specific:
///
///     publish [2, 3], [None, 3], [7, 3]   ->   [2, 3] [7, 3] [None, 3]; narrower(2) = {0, 1}
class Cache {
public:
  using Evicted = std::vector<SpecializationRef>;

  /// Immutable.
  class List {
  public:
    std::size_t size() const { return all_.size(); }
    bool empty() const { return all_.empty(); }
    const SpecializationRef &operator[](std::size_t index) const { return all_[index]; }
    const SpecializationRef &front() const { return all_.front(); }
    const SpecializationRef &back() const { return all_.back(); }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.end(); }
    /// Those that have to be asked before `index`: narrower than it.
    const auto &narrower(std::size_t index) const { return narrower_[index]; }
    /// Hot. The index of the most specific that serves, or size(). `last` is asked first, which
    /// served last, after those narrower than it.
    template <class Serves> std::size_t find(std::size_t last, const Serves &serves) const {
      if (last < all_.size()) [[likely]] {
        for (const std::uint32_t i : narrower(last))
          if (serves(*all_[i]))
            return i;
        if (serves(*all_[last])) [[likely]]
          return last;
      }
      for (std::size_t i = 0; i < all_.size(); ++i)
        if (i != last && serves(*all_[i]))
          return i;
      return all_.size();
    }
    /// The same after a check has failed. The number that it has found says which graphs come
    /// first, and leaves out those that would fail.
    template <class Serves> std::size_t find(const Found &number, const Serves &serves) const {
      for (const std::uint32_t i : in_turn(number))
        if (serves(*all_[i]))
          return i;
      return all_.size();
    }
    /// In the order of publishing.
    std::vector<SpecializationRef> by_age() const;

  private:
    friend class Cache;
    void insert(SpecializationRef added);
    void note_narrower();
    std::vector<std::uint32_t> in_turn(const Found &number) const;

    std::vector<SpecializationRef> all_;
    std::vector<c10::SmallVector<std::uint32_t, 2>> narrower_;
  };

  explicit Cache(std::size_t limit)
      : list_(std::make_shared<const List>()), eviction_(limit), limit_(limit) {}

  /// The live ones: another List after every change.
  std::shared_ptr<const List> list() const;

  /// Adds `added`, then evicts: those that can never match again, then the least valuable beyond
  /// the limit (cache/eviction.h), never the one added. Returns the evicted; destroy them without a
  /// lock.
  Evicted publish(SpecializationRef added);
  /// Takes `one` out, if it is there; not remembered as evicted.
  void remove(const SpecializationRef &one);
  Evicted clear();

  /// Whether a Specialization with this text was evicted (a bounded memory; for messages only).
  bool was_evicted(const std::string &signature_text) const;
  std::size_t limit() const { return limit_; }

private:
  mutable std::mutex mutex_;
  /// Of so many a publication looks whether what they refer to is alive: a miss does not grow with
  /// the cache.
  static constexpr std::size_t kSwept = 16;
  std::size_t swept_ = 0; ///< where the next one begins

  std::shared_ptr<const List> list_; ///< replaced, never changed
  Eviction eviction_;
  const std::size_t limit_;
};

} // namespace tracehost
