#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tracehost {

/// How often each of a few texts was given. Safe from any thread.
class Tally {
public:
  /// Texts beyond kMost different ones count as `other`.
  static constexpr std::size_t kMost = 32;
  void add(const std::string &text) {
    const std::lock_guard lock(mutex_);
    ++counts_[counts_.size() < kMost || counts_.contains(text) ? text : "other"];
  }
  std::map<std::string, std::uint64_t> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> counts_;
};

} // namespace tracehost
