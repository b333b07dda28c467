#pragma once

#include "shapes/without_data.h"

#include <ATen/core/Generator.h>

namespace tracehost::tape {

/// For a block, ops of this thread draw from a copy of torch's default generator of the CPU, also
/// where an op calls the one that draws: native_dropout calls bernoulli_. The default generator
/// itself stays as it is, so that another thread may draw meanwhile.
class OwnDraws {
public:
  OwnDraws();

private:
  void see(const c10::OperatorHandle &op, c10::DispatchKeySet below, torch::jit::Stack &stack);
  shapes::WatchedOps::Watch watch();

  at::Generator generator_;
  shapes::WatchedOps watched_;
};

} // namespace tracehost::tape
