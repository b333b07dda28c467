#pragma once

#include "cache/specialization.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace tracehost {

/// A Function's live Specializations. Safe from any thread; no user code runs under its lock, and
/// nothing is destroyed under it.
class Cache {
public:
  using List = std::vector<SpecializationRef>;
  explicit Cache(std::size_t limit) : list_(std::make_shared<const List>()), limit_(limit) {}

  /// The live ones in the order of publishing; `version` moves with every change.
  std::shared_ptr<const List> list(std::uint64_t *version = nullptr) const;

  /// Adds `added`, then evicts: those that can never match again, then the least recently used
  /// beyond the limit, never the one added. Returns the evicted; destroy them without a lock.
  List publish(SpecializationRef added);
  List clear();

  /// Whether a Specialization with this text was evicted (a bounded memory; for messages only).
  bool was_evicted(const std::string &signature_text) const;
  std::size_t limit() const { return limit_; }

private:
  mutable std::mutex mutex_;
  std::shared_ptr<const List> list_; ///< replaced, never changed
  std::uint64_t version_ = 0;
  std::unordered_set<std::size_t> evicted_; ///< hashes of texts; at most kRemembered
  const std::size_t limit_;
  static constexpr std::size_t kRemembered = 1024;
};

} // namespace tracehost
