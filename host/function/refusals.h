#pragma once

#include "signature/signature.h"

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>

namespace tracehost {

/// The Signatures whose traces were refused while refused bodies went on without a graph: they are
/// not tried again. Remembers texts' hashes: of two Signatures that read alike the second runs
/// without a graph, too, which is slower, and right. Safe from any thread.
class Refusals {
public:
  bool has(const Signature &signature) const {
    if (empty())
      return false;
    const std::size_t wanted = hash(signature); // a front end's code: not under the lock
    const std::lock_guard lock(mutex_);
    return hashes_.contains(wanted);
  }
  void add(const Signature &signature) {
    const std::size_t added = hash(signature);
    const std::lock_guard lock(mutex_);
    if (hashes_.size() >= kMost)
      hashes_.clear();
    hashes_.insert(added);
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
  static std::size_t hash(const Signature &signature) {
    return std::hash<std::string>()(text(signature));
  }
  static constexpr std::size_t kMost = 1024;
  mutable std::mutex mutex_;
  std::unordered_set<std::size_t> hashes_;
};

} // namespace tracehost
