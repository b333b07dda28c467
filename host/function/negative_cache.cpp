#include "function/negative_cache.h"

#include "signature/signature_hash.h"

#include <algorithm>

namespace tracehost {

bool NegativeCache::skips(const Signature &signature, bool goes_on) {
  if (!skips_any_)
    return false;
  const std::size_t wanted = hash(signature); // a front end's code: not under the lock
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(wanted);
  if (found == rows_.end())
    return false;
  Row &row = found->second;
  if (row.why == Why::wrong || (row.why && goes_on))
    return true;
  if (!row.left)
    return false;
  --row.left;
  return true;
}

NegativeCache::Row NegativeCache::row(const Signature &signature) const {
  if (!skips_any_)
    return {};
  const std::size_t wanted = hash(signature);
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(wanted);
  return found == rows_.end() ? Row() : found->second;
}

/// Requires: the lock is held.
NegativeCache::Row &NegativeCache::made(std::size_t hash) {
  if (rows_.size() >= kSignatures && !rows_.contains(hash))
    rows_.clear();
  return rows_[hash];
}

void NegativeCache::add(const Signature &signature, Why why) {
  const std::size_t added = hash(signature);
  const std::lock_guard lock(mutex_);
  made(added).why = why;
  skips_any_ = true;
}

std::uint32_t NegativeCache::traced(const Signature &signature, std::uint64_t hits) {
  const std::size_t added = hash(signature);
  const std::lock_guard lock(mutex_);
  Row &row = made(added);
  if (row.hits != hits)
    row.traces = row.skipped = 0;
  row.hits = hits;
  if (++row.traces < kTraces || row.left)
    return 0;
  row.left = row.skipped = row.skipped ? std::min(row.skipped * 2, kMost) : kFirst;
  skips_any_ = true;
  return row.left;
}

void NegativeCache::clear() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
  skips_any_ = false;
}

} // namespace tracehost
