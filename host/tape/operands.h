#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <deque>
#include <utility>

namespace tracehost {

/// The values of one run of a graph: its inputs before the run, its outputs after it.
///
/// Problem. As long as C++ owns a tensor, torch keeps the tensor's Python object alive. To take and
/// to drop one is 350 instructions, which ask for the GIL. Answer: the caller, who has the tensors,
/// lends them. A tape that runs kernels alone needs no more. Where Python may run meanwhile, or
/// another thread, own() takes them: the interpreter's runs, recordings, long runs.
class Operands {
public:
  Operands() = default;
  explicit Operands(torch::jit::Stack owned) : stack_(std::move(owned)) {}
  ~Operands() { give_back(); }
  Operands(const Operands &) = delete;
  Operands &operator=(const Operands &) = delete;

  /// An input. Requires: `t` is alive until the run or own(); no input is owned yet.
  void lend(const at::Tensor &t) {
    stack_.emplace_back(c10::MaybeOwnedTraits<at::Tensor>::createBorrow(t));
    ++lent_;
  }
  void lend(const c10::IValue &value) {
    stack_.push_back(c10::MaybeOwnedTraits<c10::IValue>::createBorrow(value));
    ++lent_;
  }

  /// As libtorch's interpreter takes and leaves them.
  torch::jit::Stack &own() {
    for (; lent_ > 0; --lent_) {
      c10::IValue owned = stack_[lent_ - 1];
      stack_[lent_ - 1].swap(owned);
      c10::MaybeOwnedTraits<c10::IValue>::destroyBorrow(owned);
    }
    return stack_;
  }
  c10::ArrayRef<c10::IValue> values() const { return stack_; }
  bool empty() const { return stack_.empty(); }
  std::size_t size() const { return stack_.size(); }
  const c10::IValue &operator[](std::size_t i) const { return stack_[i]; }

  void clear() {
    give_back();
    stack_.clear();
    outputs_.clear();
    warnings_ = nullptr;
  }

  /// Of a run that takes the inputs elsewhere than from own(). Then use_outputs().
  torch::jit::Stack &outputs() { return outputs_; }
  void use_outputs() {
    give_back();
    stack_.clear();
    stack_.swap(outputs_);
  }

  /// Receives what ops of the run warn of; null: who does so on the thread. It outlives the run.
  void warn(c10::WarningHandler *handler) { warnings_ = handler; }
  c10::WarningHandler *warnings() const {
    return warnings_ ? warnings_ : c10::WarningUtils::get_warning_handler();
  }

private:
  void give_back() {
    for (; lent_ > 0; --lent_)
      c10::MaybeOwnedTraits<c10::IValue>::destroyBorrow(stack_[lent_ - 1]);
  }

  torch::jit::Stack stack_, outputs_;
  std::size_t lent_ = 0; ///< the first of stack_
  c10::WarningHandler *warnings_ = nullptr;
};

/// Operands of the thread's pool, for the length of a call. LIFO: a call may be entered again while
/// another runs, and takes the next ones. They keep their capacity, not their values.
class PooledOperands {
public:
  PooledOperands() : pool_(pool()) {
    if (pool_.used == pool_.all.size()) [[unlikely]]
      pool_.all.emplace_back();
    operands_ = &pool_.all[pool_.used++];
  }
  ~PooledOperands() {
    operands_->clear();
    --pool_.used;
  }
  PooledOperands(const PooledOperands &) = delete;
  PooledOperands &operator=(const PooledOperands &) = delete;
  Operands &operator*() { return *operands_; }

private:
  struct Pool {
    std::deque<Operands> all; ///< a deque: growing moves none
    std::size_t used = 0;
  };
  static Pool &pool() {
    thread_local Pool pool;
    return pool;
  }
  Pool &pool_;
  Operands *operands_;
};

} // namespace tracehost
