#include "region/region.h"

#include "region/functions.h"
#include "region/machine.h"

#include <ATen/Version.h>

#include <algorithm>
#include <cstring>

namespace tracehost::region {
namespace {

/// A multiple of the values that any of eager's kernels takes at a time, at all sizes that follow.
constexpr std::int64_t kMostTile = 2048, kLeastTile = 256;
/// Slots and rows stay in a first-level cache of 48 KB, beside a part of inputs and outputs.
constexpr std::int64_t kScratchBytes = 32 << 10;
constexpr std::size_t kAlignment = 64;

bool cpu_has(RegionIsa isa) {
  return isa == RegionIsa::avx2
             ? __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
             : __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("bmi2");
}

} // namespace

/// A thread's memory for one tile. It grows to what the largest region needs.
struct Region::Scratch {
  std::vector<const void *> arrays;
  std::vector<std::byte> memory;

  /// Room for the arrays, and the start of the memory.
  std::byte *reserve(std::size_t count, std::size_t bytes) {
    if (arrays.size() < count)
      arrays.resize(count);
    if (memory.size() < bytes + kAlignment)
      memory.resize(bytes + kAlignment);
    auto start = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (kAlignment - start % kAlignment) % kAlignment;
  }

  /// A call, as the compiler asks for the address of a thread-local at each use of it.
  [[gnu::noinline]] static Scratch &here() { return of_thread; }

  static thread_local Scratch of_thread;
};

thread_local Region::Scratch Region::Scratch::of_thread;

std::optional<RegionIsa> region_isa() {
  const std::string capability = at::get_cpu_capability();
  if (capability == "AVX512" && cpu_has(RegionIsa::avx512))
    return RegionIsa::avx512;
  if ((capability == "AVX512" || capability == "AVX2") && cpu_has(RegionIsa::avx2))
    return RegionIsa::avx2;
  return std::nullopt;
}

std::unique_ptr<Region> Region::compile(const RegionPlan &plan, std::string &why) {
  if (const std::optional<RegionIsa> isa = region_isa())
    return compile(plan, *isa, why);
  why = "eager's kernels use neither AVX2 nor AVX512 here";
  return nullptr;
}

std::unique_ptr<Region> Region::compile(const RegionPlan &plan, RegionIsa isa, std::string &why) {
  why = find_fault(plan);
  if (!why.empty())
    return nullptr;
  std::unique_ptr<Region> made(new Region());
  made->schedule_ = std::make_unique<RegionSchedule>(make_schedule(plan));
  made->code_ = RegionMachineCode::make(*made->schedule_, plan.dtype, isa, why);
  if (!made->code_)
    return nullptr;
  made->inputs_ = plan.inputs;
  made->dtype_ = plan.dtype;
  made->itemsize_ = c10::elementSize(plan.dtype);
  made->outputs_ = plan.outputs.size();
  for (std::size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i].kind == RegionInput::Kind::row)
      made->rows_.push_back(i);
  made->plan_scratch();
  return made;
}

/// A row has room for two tiles: a tile may start at any of its values.
void Region::plan_scratch() {
  tile_ = kMostTile;
  const auto bytes = [&] {
    return static_cast<std::int64_t>(itemsize_) * tile_ *
           (schedule_->slots + 2 * static_cast<std::int64_t>(rows_.size()));
  };
  while (tile_ > kLeastTile && bytes() > kScratchBytes)
    tile_ /= 2;
  scratch_bytes_ = static_cast<std::size_t>(bytes());
  is_tiled_ = schedule_->has_calls || !rows_.empty();
}

Region::~Region() = default;
std::size_t Region::stages() const { return schedule_->stages.size(); }

void Region::run(const void *const *inputs, void *const *outputs, std::int64_t n) const {
  if (n > 0)
    split_as_eager(
        n, [&](std::int64_t begin, std::int64_t end) { run_range(inputs, outputs, begin, end); });
}

void Region::run_range(const void *const *inputs, void *const *outputs, std::int64_t begin,
                       std::int64_t end) const {
  Scratch &scratch = Scratch::here();
  const std::int64_t tile = is_tiled_ ? tile_ : end - begin;
  const std::size_t first_slot = schedule_->first_slot;
  std::byte *memory =
      scratch.reserve(first_slot + static_cast<std::size_t>(schedule_->slots), scratch_bytes_);
  for (int i = 0; i < schedule_->slots; ++i, memory += itemsize_ * static_cast<std::size_t>(tile_))
    scratch.arrays[first_slot + static_cast<std::size_t>(i)] = memory;
  if (!rows_.empty())
    repeat_rows(inputs, memory, std::min(tile, end - begin));
  for (std::int64_t at = begin; at < end; at += tile) {
    const std::int64_t n = std::min(tile, end - at);
    const std::size_t offset = itemsize_ * static_cast<std::size_t>(at);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      scratch.arrays[i] = static_cast<const std::byte *>(inputs[i]) +
                          (inputs_[i].kind == RegionInput::Kind::values ? offset : 0);
    for (std::size_t i = 0; i < outputs_; ++i)
      scratch.arrays[inputs_.size() + i] = static_cast<std::byte *>(outputs[i]) + offset;
    if (!rows_.empty())
      place_rows(scratch, inputs, memory, at, n);
    run_tile(scratch.arrays.data(), n);
  }
}

void Region::run_tile(const void *const *arrays, std::int64_t n) const {
  for (std::size_t stage = 0; stage < schedule_->stages.size(); ++stage) {
    code_->run(stage, arrays, n);
    for (const FunctionCall &call : schedule_->stages[stage].calls)
      run_function(call.function, dtype_, n, arrays[call.in], const_cast<void *>(arrays[call.out]));
  }
}

/// Writes each row that is shorter than a tile again and again, so that a tile of `n` values which
/// starts at any value of the row is contiguous.
void Region::repeat_rows(const void *const *inputs, std::byte *memory, std::int64_t n) const {
  for (const std::size_t row : rows_) {
    const std::int64_t period = inputs_[row].period;
    if (period < tile_) {
      const std::size_t size = itemsize_ * static_cast<std::size_t>(period);
      const std::size_t all = size + itemsize_ * static_cast<std::size_t>(n);
      std::memcpy(memory, inputs[row], size);
      for (std::size_t done = size; done < all; done *= 2)
        std::memcpy(memory + done, memory, std::min(done, all - done));
    }
    memory += 2 * itemsize_ * static_cast<std::size_t>(tile_);
  }
}

/// The values of the rows for values `at` to `at + n` of the region.
void Region::place_rows(Scratch &scratch, const void *const *inputs, std::byte *memory,
                        std::int64_t at, std::int64_t n) const {
  for (const std::size_t row : rows_) {
    const std::int64_t period = inputs_[row].period, start = at % period;
    const auto *values = static_cast<const std::byte *>(inputs[row]);
    const std::size_t offset = itemsize_ * static_cast<std::size_t>(start);
    if (period < tile_) {
      scratch.arrays[row] = memory + offset;
    } else if (start + n <= period) {
      scratch.arrays[row] = values + offset;
    } else { // the tile lies over the row's end
      const std::size_t first = itemsize_ * static_cast<std::size_t>(period - start);
      std::memcpy(memory, values + offset, first);
      std::memcpy(memory + first, values, itemsize_ * static_cast<std::size_t>(n) - first);
      scratch.arrays[row] = memory;
    }
    memory += 2 * itemsize_ * static_cast<std::size_t>(tile_);
  }
}

} // namespace tracehost::region
