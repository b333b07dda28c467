#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/ir/ir.h>

#include <array>

/// The modes of a thread that nodes of a graph switch, besides `aten::set_grad_enabled`.
///
///     tracehost::set_inference_mode(bool on) -> ()
///     tracehost::set_autocast(str device, bool on, int dtype) -> ()
///     tracehost::set_autocast_regions(int change, bool cache) -> ()
///
/// Each sets what the thread has from then on, until the next one; a region that the body entered
/// begins and ends with some. Casts that autocast made at the trace are ops of the graph, but ops
/// made of others (einsum, lstm) cast inside: so graphs run under the autocast that the body's ops
/// ran under, the call's own or a region's. An op whose inputs are cast already is not cast again.

namespace tracehost {

struct Autocast {
  bool on = false;
  at::ScalarType dtype = at::kFloat;
  bool operator==(const Autocast &) const = default;
};
/// By device type that has autocast.
using Autocasts = std::array<Autocast, 10>;
Autocasts autocasts_now();
void set_autocasts(const Autocasts &autocasts);
/// How many autocast regions are open on this thread; the casts of weights that autocast remembers
/// are forgotten when the outermost one ends.
int autocast_regions();
void set_autocast_regions(int regions);

/// Nodes that bring the graph from one state to the other, at its insert point.
void insert_inference_mode(torch::jit::Graph &graph, bool on);
void insert_autocasts(torch::jit::Graph &graph, const Autocasts &before, const Autocasts &after);
void insert_autocast_regions(torch::jit::Graph &graph, int change, bool cache);

/// Whether `node` is one of these.
bool is_mode(const torch::jit::Node &node);

/// Restores the thread's modes on destruction. Requires: destroyed on the thread that constructed
/// it.
class ModesKept {
public:
  ModesKept();
  ~ModesKept();
  ModesKept(const ModesKept &) = delete;
  ModesKept &operator=(const ModesKept &) = delete;

private:
  const c10::AutogradState autograd_ = c10::AutogradState::get_tls_state();
  const c10::impl::LocalDispatchKeySet keys_ = c10::impl::tls_local_dispatch_key_set();
  const Autocasts autocasts_ = autocasts_now();
  const bool cache_;
  const int regions_ = autocast_regions();
};

} // namespace tracehost
