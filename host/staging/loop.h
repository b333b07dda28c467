#pragma once

#include "trace/block.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tracehost::staging {

/// A `prim::Loop` under construction.
///
/// Problem: the graph needs the body once for any number of iterations, zero included. Answer: the
/// body is run once on fake tensors, which stand for what each iteration gets from the one before.
/// Then the finished loop itself, not the body, is run for the values with which the trace
/// continues.
///
///     while s < 100:           body()     block(%i, %s.1): %s.2 = aten::mul(%s.1, 2)
///         s = s * 2                                        %c = aten::Bool(aten::lt(%s.2, 100))
///                                                          -> (%c, %s.2)
///                              finish()   %r = prim::Loop(MAX, %c0, %s), run now: the actual s
///
/// Requires for every member: trace::recording(), on the thread that made it.
class Loop {
public:
  /// What decides how often it runs.
  struct Bounds {
    at::Tensor count;     ///< 0-dim int64, or undefined: no bound
    at::Tensor condition; ///< one element, before the first iteration; undefined: true
    std::int64_t maximum; ///< iterations at most; -1: any number
  };
  /// `carried`: before the first iteration.
  Loop(const Bounds &bounds, std::vector<at::Tensor> carried);

  struct Next {
    at::Tensor condition; ///< whether to continue; undefined: true
    std::vector<at::Tensor> carried;
  };
  /// `varying[i]`: by dimension of carried[i], whether its size may change.
  using Varying = std::vector<std::vector<bool>>;
  /// Runs the body: `index` 0-dim int64. Once.
  void body(const Varying &varying,
            const std::function<Next(const at::Tensor &index, const std::vector<at::Tensor> &)> &f);
  /// Nothing of it stays in the graph: for another attempt.
  void discard();
  /// The carried tensors after the last iteration. Once, after body().
  std::vector<at::Tensor> finish();

private:
  std::vector<at::Tensor> run_now();
  /// That of the carried tensor depends on how many iterations there are.
  void note_varying(trace::Fact fact, std::size_t i, bool varies);

  torch::jit::Node *node_ = nullptr;
  Bounds bounds_;
  std::string effect_; ///< the first one before
  std::vector<at::Tensor> carried_;
  std::vector<bool> inexact_;
  std::unordered_map<torch::jit::Value *, c10::IValue> known_; ///< what blocks use, with data
};

/// How many rows `t` has, as a traced tensor; nullopt where each call has as many.
/// Requires: trace::recording().
std::optional<at::Tensor> row_count(const at::Tensor &t);

} // namespace tracehost::staging
