#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <ATen/cuda/PhiloxCudaState.h>

#include "launch.h"

/// Random ops draw from the CUDA generator's seed and offset, which seed a generator of the CPU.
///
/// So reseeding repeats numbers, each call gives others, and a replay of a graph reads seed and
/// offset from device memory, as Philox does on a GPU. The numbers are not those of a GPU.
namespace standin {

/// Takes the next numbers of the generator that was given, or of the device's default one.
at::PhiloxCudaState take_numbers(const c10::IValue &given, c10::DeviceIndex device);

/// Where a captured op reads its seed and offset; empty otherwise.
std::vector<Span> spans_of(const at::PhiloxCudaState &state);

std::uint64_t seed_of(const at::PhiloxCudaState &state, Memory &memory);

/// In its scope the default generator of the CPU has that seed: some ops take no other. The
/// program's own numbers continue afterwards as if nothing had been drawn.
class DefaultSeed {
public:
  explicit DefaultSeed(std::uint64_t seed);
  ~DefaultSeed();

private:
  std::unique_lock<std::mutex> one_;
  at::Generator generator_;
  at::Tensor before_;
};

} // namespace standin
