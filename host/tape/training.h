#pragma once

#include "tape/recording.h"

#include <ATen/Context.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

/// Training steps as flat lists of ops.
///
/// Problem. A graph with a backward runs its ops above autograd: each one makes a node for the
/// backward, whose ops no graph has. A tape needs all ops, and none of the nodes.
///
/// Answer. The graph runs once on copies of its inputs, gradients and all. Below autograd its ops
/// are written down (shapes::WatchedOps): forward, backward and optimizer become one graph without
/// autograd, of which a tape is made as of any other. Gradients go in and out beside the arguments:
///
///     loss = ((x @ w) ** 2).sum()      mm, pow, sum
///     loss.backward()                  ones_like, expand, mul, t, mm
///     w.add_(w.grad, alpha=-.1)        add_(w, the mm)
///                                      w.grad = the mm
///
/// That is right as long as the leaves are as they were: guarded are requires_grad, whether there
/// is a .grad, and that there are no hooks (Leaves).

namespace tracehost::tape {

namespace jit = torch::jit;

/// What autograd knows of the inputs of a call.
class Leaves {
public:
  /// Throws NoTape: an input is the result of an op that autograd records, or has hooks.
  explicit Leaves(c10::ArrayRef<c10::IValue> inputs);
  /// Hot.
  bool hold(c10::ArrayRef<c10::IValue> inputs) const;

private:
  struct Leaf {
    std::size_t input;
    bool requires_grad, has_grad;
    std::optional<at::ScalarType> grad_dtype;
  };
  std::vector<Leaf> leaves_; ///< all tensors
};

/// Which kernel attention takes, by the settings of `torch.nn.attention.sdpa_kernel`: a flat graph
/// has the kernel.
struct AttentionChoice {
  static AttentionChoice now();
  bool operator==(const AttentionChoice &) const = default;

  bool flash, efficient, math, overrideable;
  std::array<at::SDPBackend, at::num_sdp_backends> order;
};
/// Whether a graph asks for attention, and leaves the kernel open.
bool chooses_attention(const jit::Graph &graph);

/// A graph without autograd that does what another does.
struct FlatGraph {
  /// The inputs of the other graph, then the gradients that it reads; its outputs, then gradients.
  std::shared_ptr<jit::Graph> graph;
  std::vector<std::size_t> reads; ///< inputs whose .grad is an input
  struct Set {
    std::size_t input; ///< whose .grad is set
    bool to_none;      ///< else to the next output
  };
  std::vector<Set> sets;
  Versions versions; ///< of its inputs and outputs
};

/// Runs the graph once, on copies. Throws NoTape, and what an op throws. `limited`: it gives up if
/// that takes long, or much memory.
FlatGraph flatten(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs, bool limited = true);

/// Whether the node reads or sets a .grad, or runs a backward.
bool is_autograd_op(const jit::Node &node);

/// Whether autograd has to do with a call of the graph.
bool needs_flat_graph(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs);

/// Whether the thread's settings allow it: no hooks on saved tensors, no anomaly mode, no observer
/// of the backward.
bool records_plainly();

} // namespace tracehost::tape
