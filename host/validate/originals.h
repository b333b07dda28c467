#pragma once

#include "trace/op_hook.h"
#include "trace/witness.h"
#include "validate/draws.h"
#include "validate/policy.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tracehost::validate {

/// The inputs of a body's graph, as they were before it: to run the graph on.
///
/// Problem: when the body has run, what it wrote in place is gone. Answer: the memory behind an
/// input is copied just before an op first writes it, by any view of it. Memory that is never
/// written is not copied.
///
///     def f(x, y):        y = x[0]     storages: one, copied before mul_
///         x.mul_(2)                    inputs(): x', y', views of the copy, as of the input
///         return x + y
///
/// A graph with a backward pass (validate/originals_gradients.cpp) would add to the `.grad` of the
/// inputs themselves. So the graph gets another tensor for each leaf. This tensor has the leaf's
/// memory, or a copy if that was written, and a `.grad` of its own, as it was before the body.
///
///     w.grad == 1         for the graph: w', of w's memory; w'.grad a copy that is 1
///     loss.backward()     body: w.grad == 3; graph: w'.grad == 3
class Originals final : public trace::Witness {
public:
  explicit Originals(const Policy &policy) : policy_(policy) {}

  void met(const at::Tensor &input) override;
  void before(const c10::OperatorHandle &op, const torch::jit::Stack &stack) override;
  void before_eager_op(const c10::OperatorHandle &op, const torch::jit::Stack &stack) override;
  void after(const c10::OperatorHandle &op, const torch::jit::Stack &stack) override;
  void before_backward() override;
  void after_backward() override;

  /// The body's ops took so long, so far.
  void took(std::chrono::nanoseconds time);
  /// Why the graph can't be run on them, a sentence's rest; empty: it can.
  const std::string &problem() const { return problem_; }
  /// Why a backward pass can't be run once more beside the body's, a sentence's rest; empty: it
  /// can. `name`: of an input.
  std::string problem_of_backward(const std::function<std::string(std::size_t)> &name) const;
  /// What stands for each input as it was: itself where it was not written, a copy else, which is
  /// another one each time. `gradients`: the graph reads or changes `.grad`s.
  std::vector<at::Tensor> inputs(bool gradients);

  std::size_t size() const { return inputs_.size(); }
  const at::Tensor &tensor(std::size_t input) const { return inputs_[input].tensor; }
  bool is_written(std::size_t input) const;
  /// Written by what is no part of the graph, too.
  bool is_written_aside(std::size_t input) const;
  /// What it had its values in before the body; null: it has no memory of that kind.
  const c10::StorageImpl *storage(std::size_t input) const {
    const auto memory = inputs_[input].memory;
    return memory < 0 ? nullptr
                      : memories_[static_cast<std::size_t>(memory)].storage.unsafeGetStorageImpl();
  }
  /// Whether a written one took part in a computation of gradients before: its history is not the
  /// copy's.
  bool lacks_history() const { return lacks_history_; }
  const Draws &draws() const { return draws_; }

private:
  struct Input {
    at::Tensor tensor;
    std::ptrdiff_t memory = -1;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    bool requires_grad = false;
    bool is_leaf = true;
    bool is_conj = false, is_neg = false;
    at::Tensor base; ///< that it is a view of, as far as autograd knows
  };
  struct Memory {
    c10::Storage storage;
    at::Tensor copy; ///< of its bytes; undefined: not written
    at::Tensor lent; ///< a copy of that, while inputs() makes tensors of it
    bool aside;      ///< written by an init_scope block, which the graph does not do
  };
  void give_up(std::string why);
  void count(std::size_t bytes);
  Input described(const at::Tensor &t);
  void note_writes(const c10::OperatorHandle &op, const torch::jit::Stack &stack, bool aside);
  void copy(const at::Tensor &written, bool aside);
  at::Tensor as_it_was(const Input &input);
  at::Tensor with_own_grad(at::Tensor stands, const Input &input, const Input &grad);
  at::Tensor rebuilt(const Input &input, const Memory &memory);
  at::Tensor copy_of(const Input &input, const Memory &memory);
  at::Tensor base_of(const Input &view, const Memory &memory);
  void set_history(const at::Tensor &copy, bool requires_grad, bool is_leaf);

  const Policy policy_;
  std::size_t bytes_ = 0;
  std::chrono::nanoseconds time_{0};
  std::chrono::steady_clock::time_point op_began_;
  std::string problem_;
  bool lacks_history_ = false;
  std::vector<Input> inputs_;
  std::vector<Input> grads_; ///< of inputs, before the body; without a tensor: None
  std::vector<Memory> memories_;
  std::unordered_map<const c10::StorageImpl *, std::size_t> known_; ///< into memories_
  std::vector<std::pair<at::Tensor, at::Tensor>> bases_;            ///< and their copies
  Draws draws_;
};

/// Lets a Witness see the ops of this thread for a block that is no trace.
class Watching final : public trace::OpHook {
public:
  explicit Watching(trace::Witness &witness) : witness_(witness), installed_(this) {}
  void before(const c10::OperatorHandle &, const torch::jit::Stack &) override {}
  void failed(const c10::OperatorHandle &) override {}
  void after(const c10::OperatorHandle &, torch::jit::Stack &) override {}
  void unrecorded(const c10::OperatorHandle &, const torch::jit::Stack &) override {}
  void outside(const c10::OperatorHandle &op, const torch::jit::Stack &stack) override {
    witness_.before(op, stack);
  }
  bool abandoned() const override { return false; }

private:
  trace::Witness &witness_;
  trace::InstalledHook installed_;
};

} // namespace tracehost::validate
