#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

namespace tracehost::validate {

/// The random generators that a body draws from, as they were before it first did.
class Draws {
public:
  /// A random op is about to run.
  void before(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  bool empty() const { return generators_.empty(); }

  using States = std::vector<at::Tensor>;
  States now() const;
  /// Puts the generators back to what they were before the body.
  void rewind() const;
  void set(const States &states) const;
  static bool equal(const States &a, const States &b);

private:
  struct Saved {
    at::Generator generator;
    at::Tensor state;
  };
  void save(const at::Generator &generator);
  void save_default(c10::Device device);

  std::vector<Saved> generators_;
};

} // namespace tracehost::validate
