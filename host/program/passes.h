#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace tracehost {

/// What a traced graph goes through before it runs; keeps the order of ops with effects.
void prepare(const std::shared_ptr<torch::jit::Graph> &graph);

} // namespace tracehost
