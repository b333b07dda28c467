#pragma once

#include <ATen/core/stack.h>

#include <deque>

namespace tracehost {

/// A stack of the thread's pool, for the length of a call. LIFO: a call may be entered again while
/// another runs, and takes the next one. Keeps its capacity, not its values.
class PooledStack {
public:
  PooledStack() : pool_(pool()) {
    if (pool_.used == pool_.stacks.size()) [[unlikely]]
      pool_.stacks.emplace_back();
    stack_ = &pool_.stacks[pool_.used++];
  }
  ~PooledStack() {
    stack_->clear();
    --pool_.used;
  }
  PooledStack(const PooledStack &) = delete;
  PooledStack &operator=(const PooledStack &) = delete;
  torch::jit::Stack &operator*() { return *stack_; }

private:
  struct Pool {
    std::deque<torch::jit::Stack> stacks; ///< a deque: growing moves none
    std::size_t used = 0;
  };
  static Pool &pool() {
    thread_local Pool pool;
    return pool;
  }
  Pool &pool_;
  torch::jit::Stack *stack_;
};

} // namespace tracehost
