#include "runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

/// Memory: blocks of devices and page-locked blocks of the host.
///
/// A block of a device has up to three mappings of its size:
///
///     address     what the program holds. With STANDIN_PROTECT nobody may read it.
///     contents    the device's bytes: the same pages as `address`, readable
///     ahead       lazy streams only: other pages, with the bytes that are to come
namespace standin {

namespace {

constexpr std::size_t kPage = 4096;
// Fresh memory contains NaN, but a huge block is not to occupy the machine's memory.
constexpr std::size_t kMostSpoiled = 32 << 20;
constexpr int kSpoiled = 0xFF;

struct Block {
  std::uint64_t number;
  std::size_t bytes;
  int device;
  bool on_host;
  char *contents;
  char *ahead;
};

std::mutex mutex;
std::map<char *, Block> blocks;
std::size_t used[kMostDevices];
std::uint64_t last_number = 0;

/// The block that the address lies in, and its distance from the block's begin. Requires: `mutex`.
std::pair<Block *, std::size_t> find(const void *pointer) {
  auto *address = static_cast<char *>(const_cast<void *>(pointer));
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin())
    return {nullptr, 0};
  auto &[begin, block] = *std::prev(after);
  const auto distance = static_cast<std::size_t>(address - begin);
  return distance < block.bytes ? std::pair(&block, distance) : std::pair(nullptr, std::size_t{0});
}

char *map(std::size_t bytes, int access, int file = -1) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void *mapped = mmap(nullptr, std::max(bytes, kPage), access, flags, file, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<char *>(mapped);
}

/// Sets the mappings of the block. Returns its address, or null.
char *map_block(Block &block) {
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  char *address = nullptr;
  if (switches().protect) {
    const int file = memfd_create("standin", 0);
    if (file < 0 || ftruncate(file, static_cast<off_t>(std::max(block.bytes, kPage))))
      return nullptr;
    address = map(block.bytes, PROT_NONE, file);
    block.contents = map(block.bytes, kAccess, file);
    close(file);
  } else {
    address = map(block.bytes, kAccess);
    block.contents = address;
  }
  block.ahead = switches().lazy ? map(block.bytes, kAccess) : nullptr;
  if (!address || !block.contents || (switches().lazy && !block.ahead))
    return nullptr;
  std::memset(block.contents, kSpoiled, std::min(block.bytes, kMostSpoiled));
  return address;
}

void unmap_block(char *address, const Block &block) {
  const std::size_t bytes = std::max(block.bytes, kPage);
  munmap(address, bytes);
  if (block.contents != address)
    munmap(block.contents, bytes);
  if (block.ahead)
    munmap(block.ahead, bytes);
}

class DeviceMemory : public Memory {
public:
  void *at(const void *address) override {
    std::lock_guard lock(mutex);
    const auto [block, distance] = find(address);
    return block && !block->on_host ? block->contents + distance : const_cast<void *>(address);
  }
};

class AheadMemory : public Memory {
public:
  void *at(const void *address) override {
    std::lock_guard lock(mutex);
    const auto [block, distance] = find(address);
    return block && !block->on_host ? block->ahead + distance : const_cast<void *>(address);
  }
};

} // namespace

Memory &device_memory() {
  static DeviceMemory memory;
  return memory;
}

Memory &ahead_memory() {
  static AheadMemory memory;
  return memory;
}

bool is_device(const void *address) {
  std::lock_guard lock(mutex);
  const Block *block = find(address).first;
  return block && !block->on_host;
}

bool is_page_locked(const void *address) {
  std::lock_guard lock(mutex);
  const Block *block = find(address).first;
  return block && block->on_host;
}

void settle(Span span) {
  if (switches().lazy && span.bytes && is_device(span.begin))
    std::memcpy(ahead_memory().at(span.begin), device_memory().at(span.begin), span.bytes);
}

void spoil(Span span) {
  if (span.bytes && is_device(span.begin) && !is_in_use(span))
    std::memset(device_memory().at(span.begin), kSpoiled, span.bytes);
}

Draft::~Draft() {
  for (const auto &[number, copy] : copies_)
    munmap(copy.contents, std::max(copy.bytes, kPage));
}

void *Draft::at(const void *address) {
  std::lock_guard mine(mutex_);
  std::lock_guard lock(mutex);
  const auto [block, distance] = find(address);
  if (!block || block->on_host)
    return const_cast<void *>(address);
  auto [found, is_new] = copies_.try_emplace(block->number);
  if (is_new) {
    found->second = {map(block->bytes, PROT_READ | PROT_WRITE), block->bytes};
    std::memcpy(found->second.contents, block->ahead ? block->ahead : block->contents,
                block->bytes);
  }
  return found->second.contents + distance;
}

char *allocate(std::size_t bytes, int device) {
  std::lock_guard lock(mutex);
  if (used[device] + bytes > switches().bytes)
    return nullptr;
  Block block{++last_number, bytes, device, false, nullptr, nullptr};
  char *address = map_block(block);
  if (!address)
    return nullptr;
  blocks[address] = block;
  used[device] += bytes;
  return address;
}

bool release(void *address) {
  std::lock_guard lock(mutex);
  const auto found = blocks.find(static_cast<char *>(address));
  if (found == blocks.end() || found->second.on_host)
    return false;
  used[found->second.device] -= found->second.bytes;
  unmap_block(found->first, found->second);
  blocks.erase(found);
  return true;
}

void add_host_block(void *address, std::size_t bytes) {
  std::lock_guard lock(mutex);
  auto *begin = static_cast<char *>(address);
  blocks[begin] = {++last_number, bytes, current_device(), true, begin, nullptr};
}

void remove_host_block(void *address) {
  std::lock_guard lock(mutex);
  blocks.erase(static_cast<char *>(address));
}

std::size_t used_bytes(int device) {
  std::lock_guard lock(mutex);
  return used[device];
}

int device_of(const void *address) {
  std::lock_guard lock(mutex);
  const Block *block = find(address).first;
  return block ? block->device : -2;
}

} // namespace standin
