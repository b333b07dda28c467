#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tracehost {

/// What the run under way on this thread has saved, so that a check that fails leaves the call
/// without effect.
///
/// Problem: a body changes what was there before the call (`optimizer.zero_grad()`, the running
/// mean of a BatchNorm, a draw), and then needs a number that the graph was made for. Another graph
/// serves the call if the number differs. It must find all as it was. Answer: ops of the graph save
/// before each such change. A check that fails restores everything, the newest first. So does an op
/// that fails, where its place is undoable (places.h).
///
///     tracehost::save_grad(Tensor[] leaves, bool values) -> ()  their `.grad`, and what it holds
///     tracehost::set_grad(%w, None)
///     tracehost::save_data(Tensor t)             a copy of its values, and its version
///     aten::add_(%t, ...)
///     tracehost::check_number(%n, 3)             may restore
///     tracehost::forget_saved()                  behind the last check
///
///     tracehost::save_generator(Generator g)     a copy of its state
///     tracehost::save_default_generator(Device d)
///
/// The ops are in a graph only where a check follows. Program::run owns one Undo for each run.
class Undo {
public:
  Undo() : outer_(std::exchange(current, this)) {}
  ~Undo() { current = outer_; }
  Undo(const Undo &) = delete;
  Undo &operator=(const Undo &) = delete;

  /// Each keeps the first state that is saved of an object.
  void save_generator(const at::Generator &generator);
  /// `values`: what the gradient holds, too.
  void save_grad(const at::Tensor &leaf, bool values);
  void save_data(const at::Tensor &t);
  void forget();
  /// All is as it was when it was saved, versions included.
  void restore();

  /// Null: of none that saves.
  static thread_local Undo *current;
  /// Whether restore() would restore all that the ops before have saved.
  bool has_all() const { return !forgot_; }

private:
  struct Data {
    at::Tensor tensor, values;
    std::int64_t version; ///< -1: an inference tensor, which has none
  };
  std::vector<std::pair<at::Generator, at::Generator>> generators_; ///< with a copy
  std::vector<std::pair<at::Tensor, at::Tensor>> grads_;            ///< of leaves
  std::vector<Data> data_;
  std::unordered_set<const void *> saved_; ///< the generators and leaves, and tensors of data_
  bool forgot_ = false;
  Undo *const outer_;
};

/// Whether the node saves something.
bool saves(const torch::jit::Node &node);

/// Whether the op of this qualified name is a check, or saves for one: it needs nothing but the
/// graph.
bool is_check_or_save(std::string_view op);

} // namespace tracehost
