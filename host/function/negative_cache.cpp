#include "function/negative_cache.h"

#include "signature/signature_hash.h"

#include <c10/util/hash.h>

namespace tracehost {

namespace {

std::size_t key(const NegativeCache::Call &call) {
  const std::size_t own = hash(call.signature); // a front end's code: not under the lock
  return call.failed ? c10::hash_combine(own, 1) : own;
}

} // namespace

bool NegativeCache::skips(const Call &call, bool goes_on) {
  if (!skips_any_)
    return false;
  const std::size_t wanted = key(call);
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(wanted);
  if (found == rows_.end())
    return false;
  Row &row = found->second;
  if (row.why == Why::wrong || (row.why == Why::rejected && goes_on))
    return true;
  if (!row.left)
    return false;
  --row.left;
  return true;
}

NegativeCache::Row NegativeCache::row(const Call &call) const {
  if (!skips_any_)
    return {};
  const std::size_t wanted = key(call);
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
  const std::size_t added = key({signature});
  const std::lock_guard lock(mutex_);
  made(added).why = why;
  skips_any_ = true;
}

std::uint32_t NegativeCache::traced(const Call &call, std::uint64_t hits) {
  const std::size_t added = key(call);
  const std::lock_guard lock(mutex_);
  Row &row = made(added);
  if (!call.failed && row.hits != hits)
    row.traces = row.skipped = 0;
  if (!call.failed)
    row.hits = hits;
  if (++row.traces < kTraces || row.left)
    return 0;
  row.back_off();
  skips_any_ = true;
  return row.left;
}

void NegativeCache::abandoned(const Call &call) {
  const std::size_t added = key(call);
  const std::lock_guard lock(mutex_);
  made(added).back_off();
  skips_any_ = true;
}

bool NegativeCache::pauses(const Signature &signature, std::uint64_t hits) {
  const std::size_t wanted = key({signature, true});
  const std::lock_guard lock(mutex_);
  Row &row = made(wanted);
  const std::uint64_t between = hits - std::min(row.hits, hits);
  row.hits = hits;
  row.balance -= static_cast<std::uint32_t>(std::min<std::uint64_t>(row.balance, between));
  row.balance = std::min(row.balance + 2, kBalance);
  return row.balance == kBalance;
}

void NegativeCache::clear() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
  skips_any_ = false;
}

} // namespace tracehost
