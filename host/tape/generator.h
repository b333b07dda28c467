#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <mutex>

/// The state of a random generator, read and set under its lock.

namespace tracehost::tape {

inline at::Tensor state_of(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

inline void set_state(at::Generator generator, const at::Tensor &state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

/// Of torch's default generator of the CPU.
inline at::Tensor state_of_generator() { return state_of(at::detail::getDefaultCPUGenerator()); }

inline void set_state_of_generator(const at::Tensor &state) {
  set_state(at::detail::getDefaultCPUGenerator(), state);
}

} // namespace tracehost::tape
