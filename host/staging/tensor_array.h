#pragma once

#include "program/array_ops.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace torch::jit::tracer {
struct TracingState;
}

namespace tracehost::staging {

/// A list of tensors that a graph fills and reads, also in blocks: it changes in place, so a loop's
/// body writes to it without carrying it.
///
///     a = TensorArray(0)           %a = tracehost::array_new(0)      list_: the real one
///     for x in xs:                 prim::Loop(...)                   the loop, run for its values,
///         a.append(x * x)            aten::append(%a, %y)               fills list_
///     a.stack()                    aten::stack(%a, 0)                at::stack(list_)
///
/// On fake tensors (a loop's body, a branch that is not taken) nodes are made and list_ stays.
///
/// A list is `fixed` (its size is given, nothing is appended) or grows. How long one that grows is
/// depends on values in each block but its own, and everywhere once another block has written to
/// it: then sizes of what is made of it are inexact.
///
/// After its trace, or where that was abandoned, it is a plain list. Elements have one dtype and
/// shape: the caller's to check, by element().
class TensorArray {
public:
  using Index = std::variant<std::int64_t, at::Tensor>; ///< a tensor: 0-dim, of integers, traced

  /// What an element is.
  struct Element {
    std::vector<std::int64_t> sizes;
    at::TensorOptions options;
    bool requires_grad;
    bool inexact; ///< its sizes
  };

  /// `size` 0: it grows; a tensor: fixed, by its value at each call. Requires: trace::recording().
  explicit TensorArray(const Index &size);

  void append(const at::Tensor &value);
  void write(const Index &index, const at::Tensor &value);
  void unstack(const at::Tensor &rows);
  at::Tensor read(const Index &index);
  at::Tensor stack();
  /// How many elements: a tensor where that depends on values.
  Index size();
  bool fixed() const { return fixed_; }
  const std::optional<Element> &element() const { return element_; }

private:
  bool in_graph();
  bool counts_here() const;
  bool has_data() const;
  void met(const at::Tensor &value);
  void learn(const at::Tensor &t, std::vector<std::int64_t> sizes);
  const Element &known_element() const;
  torch::jit::Value *value_of(const Index &index);
  at::Tensor fake_tensor(std::vector<std::int64_t> sizes) const;

  std::weak_ptr<torch::jit::tracer::TracingState> trace_;
  torch::jit::Value *value_ = nullptr;
  /// Knows whether value_ still exists: a loop's body may have been staged in vain.
  std::shared_ptr<torch::jit::Wrap<torch::jit::Value>> handle_;
  std::optional<TensorArrayList> list_; ///< where the trace has data
  std::optional<Element> element_;
  std::int64_t count_ = 0; ///< where it is known without data
  bool by_value_;          ///< its size is a tensor's value
  bool fixed_ = false;
  bool elsewhere_ = false; ///< another block than its own has written
};

} // namespace tracehost::staging
