#pragma once

#include "shapes/without_data.h"

#include <ATen/core/Generator.h>

#include <optional>
#include <utility>

namespace tracehost::tape {

/// For a block, ops of this thread draw from a generator of its own in the place of torch's default
/// generator of the CPU. So does an op that another one calls: native_dropout calls bernoulli_. The
/// default generator stays as it is, so that another thread may draw meanwhile.
class OwnDraws {
public:
  /// `state`: where the generator begins, as state_of_generator() gives it.
  explicit OwnDraws(const at::Tensor &state);
  ~OwnDraws() { current = outer_; }
  OwnDraws(const OwnDraws &) = delete;
  OwnDraws &operator=(const OwnDraws &) = delete;

  /// What a kernel draws from that is called without its op; none: torch's default generator.
  static std::optional<at::Generator> generator() {
    return current ? std::optional(current->generator_) : std::nullopt;
  }

private:
  void see(const c10::OperatorHandle &op, c10::DispatchKeySet below, torch::jit::Stack &stack);
  shapes::WatchedOps::Watch watch();

  static thread_local const OwnDraws *current;
  const OwnDraws *const outer_ = std::exchange(current, this);
  at::Generator generator_;
  shapes::WatchedOps watched_;
};

} // namespace tracehost::tape
