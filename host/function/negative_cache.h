#pragma once

#include "signature/signature_hash.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace tracehost {

/// The Signatures that have no graph: not tried again. Remembers hashes: of two Signatures with one
/// hash the second runs without a graph, too, which is slower, and right. Safe from any thread.
class NegativeCache {
public:
  enum class Why : std::uint8_t {
    rejected, ///< the trace was unsupported: for calls whose Stance lets the body continue
    wrong,    ///< the graph did not do what the body did: for all
  };
  std::optional<Why> of(const Signature &signature) const {
    if (empty())
      return std::nullopt;
    const std::size_t wanted = hash(signature); // a front end's code: not under the lock
    const std::lock_guard lock(mutex_);
    const auto found = hashes_.find(wanted);
    return found == hashes_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const Signature &signature, Why why) {
    const std::size_t added = hash(signature);
    const std::lock_guard lock(mutex_);
    if (hashes_.size() >= kMost)
      hashes_.clear();
    hashes_.insert_or_assign(added, why);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    hashes_.clear();
  }

private:
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return hashes_.empty();
  }
  static constexpr std::size_t kMost = 1024;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, Why> hashes_;
};

} // namespace tracehost
