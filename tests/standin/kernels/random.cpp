#include "random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

namespace standin {

namespace {

// A kernel draws at most so many numbers in a thread; torch rounds up to this.
constexpr std::uint64_t kIncrement = 4;
// Seeds and offsets are small numbers; this spreads them over all bits.
constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;

std::mutex &default_generator() {
  static std::mutex mutex;
  return mutex;
}

} // namespace

at::PhiloxCudaState take_numbers(const c10::IValue &given, c10::DeviceIndex device) {
  const bool is_given = given.isGenerator() && given.toGenerator().defined();
  at::Generator generator =
      is_given ? given.toGenerator() : at::cuda::detail::getDefaultCUDAGenerator(device);
  TORCH_CHECK(generator.device().is_cuda(),
              "Expected a 'cuda' device type for generator but found '", generator.device().type(),
              "'");
  std::lock_guard lock(generator.mutex());
  return at::check_generator<at::CUDAGeneratorImpl>(generator)->philox_cuda_state(kIncrement);
}

std::vector<Span> spans_of(const at::PhiloxCudaState &state) {
  if (!state.captured_)
    return {};
  return {{state.seed_.ptr, sizeof *state.seed_.ptr},
          {state.offset_.ptr, sizeof *state.offset_.ptr}};
}

std::uint64_t seed_of(const at::PhiloxCudaState &state, Memory &memory) {
  const auto read = [&](const std::int64_t *address) {
    return static_cast<std::uint64_t>(*static_cast<const std::int64_t *>(memory.at(address)));
  };
  const std::uint64_t seed = state.captured_ ? read(state.seed_.ptr) : state.seed_.val;
  const std::uint64_t offset =
      state.captured_ ? read(state.offset_.ptr) + state.offset_intragraph_ : state.offset_.val;
  return seed * kGoldenRatio + offset + 1;
}

DefaultSeed::DefaultSeed(std::uint64_t seed)
    : one_(default_generator()), generator_(at::detail::getDefaultCPUGenerator()) {
  std::lock_guard lock(generator_.mutex());
  before_ = generator_.get_state();
  generator_.set_current_seed(seed);
}

DefaultSeed::~DefaultSeed() {
  std::lock_guard lock(generator_.mutex());
  generator_.set_state(before_);
}

} // namespace standin
