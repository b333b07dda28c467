#include "function/backoff.h"

#include "signature/signature_hash.h"

#include <algorithm>

namespace tracehost {

bool Backoff::skips(const Signature &signature) {
  {
    const std::lock_guard lock(mutex_);
    if (!skipping_)
      return false;
  }
  const std::size_t wanted = hash(signature);
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(wanted);
  if (found == rows_.end() || !found->second.left)
    return false;
  skipping_ -= --found->second.left == 0;
  return true;
}

std::uint32_t Backoff::left(const Signature &signature) const {
  const std::size_t wanted = hash(signature);
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(wanted);
  return found == rows_.end() ? 0 : found->second.left;
}

std::uint32_t Backoff::traced(const Signature &signature, std::uint64_t hits) {
  const std::size_t added = hash(signature);
  const std::lock_guard lock(mutex_);
  if (rows_.size() >= kSignatures && !rows_.contains(added)) {
    rows_.clear();
    skipping_ = 0;
  }
  Row &row = rows_[added];
  if (row.hits != hits)
    row.traces = row.skipped = 0;
  row.hits = hits;
  if (++row.traces < kTraces || row.left)
    return 0;
  row.left = row.skipped = row.skipped ? std::min(row.skipped * 2, kMost) : kFirst;
  ++skipping_;
  return row.left;
}

void Backoff::clear() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
  skipping_ = 0;
}

} // namespace tracehost
