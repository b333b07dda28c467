#pragma once

#include "shapes/without_data.h"

#include <ATen/core/Generator.h>

namespace tracehost::tape {

/// For a block, ops of this thread draw from a generator of its own in the place of torch's default
/// generator of the CPU. So does an op that another one calls: native_dropout calls bernoulli_. The
/// default generator stays as it is, so that another thread may draw meanwhile.
class OwnDraws {
public:
  /// `state`: where the generator begins, as state_of_generator() gives it.
  explicit OwnDraws(const at::Tensor &state);

private:
  void see(const c10::OperatorHandle &op, c10::DispatchKeySet below, torch::jit::Stack &stack);
  shapes::WatchedOps::Watch watch();

  at::Generator generator_;
  shapes::WatchedOps watched_;
};

} // namespace tracehost::tape
