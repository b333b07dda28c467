#pragma once

#include "trace/head.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <vector>

namespace tracehost::trace {

/// The nodes that save what a failed check, or an op that fails, may have to restore
/// (program/undo.h says why).
///
/// A node is made where something is about to change. Only a check behind it, or an op in a `try`
/// of the body, makes it needed: those without are taken out at the end.
///
///     save_grad([%w, %b])       needed, as the check follows
///     set_grad(%w, None)        zero_grad()
///     set_grad(%b, None)
///     check_number(%n, 3)
///     forget_saved()
///     save_data(%mean)          taken out
///     native_batch_norm(... %mean ...)
class Saves {
public:
  /// A check will be inserted: all that was saved so far is needed.
  void need(torch::jit::Graph &graph, Head &head);
  /// An op will be recorded that may raise in a `try` of the body: the same, and what is saved is
  /// kept until the run ends.
  void need_to_end(torch::jit::Graph &graph, Head &head) {
    need(graph, head);
    to_end_ = true;
  }
  void generator(const at::Generator &generator);
  /// Of `t`, which is `value` in the graph, and is saved here unless it was before.
  /// `values`: those of the gradient as well, to which the engine adds in place.
  void grad(torch::jit::Graph &graph, const at::Tensor &leaf, torch::jit::Value *value,
            bool values = false);
  void data(torch::jit::Graph &graph, const at::Tensor &t, torch::jit::Value *value);
  /// Whether each run that comes to the graph's insert point has saved the `.grad` of `leaf`.
  bool has_grad(torch::jit::Graph &graph, const at::Tensor &leaf) const;

  bool empty() const { return generators_.empty() && nodes_.empty(); }
  bool all_needed() const;
  /// The node is taken out of the graph.
  void forget(const torch::jit::Node *node);
  /// Takes out the nodes that no check needs. Returns how many bytes of values the others copy at
  /// each run.
  std::size_t close(torch::jit::Graph &graph);

private:
  struct Generator {
    at::Generator generator;
    bool needed = false;
  };
  enum class What : std::uint8_t { data, grad, grad_and_values };
  /// Weak: a second owner would change what ops do.
  using Tensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Node {
    torch::jit::Node *node;
    What what;
    std::vector<Tensor> tensors;
    bool needed = false;
  };
  const Node *find(torch::jit::Graph &graph, const at::Tensor &t, What what) const;

  std::vector<Generator> generators_;
  std::vector<Node> nodes_;
  bool to_end_ = false;
};

} // namespace tracehost::trace
