#pragma once

#include "event/event.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tracehost::trace {
class InBlock;
}

namespace tracehost::staging {

/// A `prim::If` under construction.
///
/// Problem: both branches must be in the graph, but only one may happen. Answer: the one that the
/// condition chooses runs for real, in its block; the other one on fake tensors without data, in
/// its. What the branches leave is joined afterwards, as only then both are known.
///
///     if x.sum() > 0:        run(then)       [y * 2]        %r = prim::If(%c)
///         r = y * 2          run(otherwise)  [y]              block0(): -> (aten::mul(%y, 2))
///     else:                  join(0, 0)      r                block1(): -> (%y)
///         r = y
///
/// Requires for every member: trace::recording(), on the thread that made it.
class Branches {
public:
  enum Branch : std::size_t { then = 0, otherwise = 1 };
  using Body = std::function<std::vector<at::Tensor>()>;

  /// `condition`: one element, of any dtype. `what`: `if`; `where`: its line.
  Branches(const at::Tensor &condition, const std::string &what, std::string where);

  /// What the condition is; nullopt where ops have no data.
  std::optional<bool> condition() const { return condition_; }
  /// Runs `body` in a branch's block, after what is there; for real if the condition chooses it.
  /// Returns what its tensors are called in join(): first, first + 1 ... Throws Abandoned where the
  /// body has ended without the trace: its results count if it ran for real.
  std::size_t run(Branch branch, const Body &body);
  /// Raises, because a side is not pure and the condition can't be checked. `why`: what the side
  /// does, `calls print() at train.py:9`.
  [[noreturn]] void reject(const std::string &why) const;
  /// `if at train.py:8`
  const std::string &name() const { return name_; }
  /// Ends a branch that raises: it has no results. `where`: the line
  /// that raises.
  void raise(Branch branch, const std::string &type, const std::string &message,
             const std::string &details, const Site &where);
  /// Whether the graph could check the condition, where it is now.
  bool can_be_checked() const;
  /// Whether a failed check of the condition has nothing to restore.
  bool comes_first() const { return comes_first_; }
  /// There is no If after all: the graph checks the condition, and what the chosen branch records
  /// is part of what is around it. Called behind its run, or while it runs: first check(), then
  /// open() from the innermost If to the outermost. Requires: can_be_checked().
  void check();
  void open();
  bool taken() const { return taken_; }
  /// One result. `actual`: the chosen branch's tensor (without data, the first's). Returns the
  /// tensor that stands for it from now on.
  at::Tensor join(std::size_t then, std::size_t otherwise, const at::Tensor &actual);

  /// In place of a result of a branch that raises.
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

private:
  struct Left {
    at::Tensor tensor; ///< a further run of the branch may use it
    torch::jit::Value *value;
    std::vector<std::int64_t> sizes;
    bool inexact;
    bool requires_grad, is_leaf; ///< as in eager
  };
  const Left *left(Branch branch, std::size_t index) const;
  torch::jit::Value *output(Branch branch, std::size_t index);
  std::size_t run_in_block(Branch branch, const Body &body);
  void take();
  std::string why_not_checked() const;

  const at::Tensor tested_;
  const std::string where_, name_;
  torch::jit::Node *node_ = nullptr;
  trace::InBlock *block_ = nullptr; ///< of the chosen branch, while it runs
  bool taken_ = false;
  bool comes_first_ = false;
  std::string effect_; ///< the first one before
  std::optional<bool> condition_;
  std::array<std::vector<Left>, 2> left_;
};

/// What Branches::raise puts into a branch, here. Requires: trace::recording().
/// `details`: Raised's.
void raise_error(const std::string &type, const std::string &message, const std::string &details,
                 const Site &where);

} // namespace tracehost::staging
