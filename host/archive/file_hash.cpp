#include "archive/file_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

namespace tracehost::archive {

struct FileHash::State {
  XXH3_state_t *const xxh3 = XXH3_createState();
};

FileHash::FileHash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh3); }

FileHash::~FileHash() { XXH3_freeState(state_->xxh3); }

void FileHash::add(const void *bytes, std::size_t count) {
  XXH3_128bits_update(state_->xxh3, bytes, count);
}

std::string FileHash::digits() const {
  const XXH128_hash_t found = XXH3_128bits_digest(state_->xxh3);
  return fmt::format("{:016x}{:016x}", found.high64, found.low64);
}

} // namespace tracehost::archive
