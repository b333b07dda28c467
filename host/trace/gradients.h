#pragma once

#include "program/autograd_ops.h"
#include "signature/grad_read.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

/// Backward passes of the body, and the `.grad` of tensors, as a trace records them
/// (program/autograd_ops.h): prepare_engine_call, the engine itself in a Called block,
/// record_engine_call.
///
///     body:  loss.backward()        graph(%x, %w):
///            return w.grad            %loss = ...
///                                     = tracehost::backward([%loss], [%1], ...)
///                                     %g = tracehost::read_grad(%w)
///                                     return (%g)
///
/// A `.grad` is state of a tensor that no graph input shows. The body may read one that neither a
/// backward pass nor an assignment of its own has made sure of. Then what it was before the call
/// becomes part of the signature (Traced::grads).

namespace tracehost::trace {

/// What a trace knows of `.grad`s.
class Gradients {
public:
  /// The engine is about to run; has run.
  void about_to_run(const EngineCall &call);
  void has_run();
  /// The body reads `t`'s. Whether the graph does not have the gradient yet.
  bool read(const at::Tensor &t);
  /// The graph has the gradient of `t` as a value, from now on.
  void is_known(const at::Tensor &t);
  /// The body has assigned to `t`'s.
  void wrote(const at::Tensor &t);
  bool runs() const { return runs_ > 0; } ///< whether the engine has run
  /// Tensors whose gradient the body read, with what it was before the call.
  std::vector<std::pair<at::Tensor, GradState>> assumed() const;
  /// Whether the body has given `t` the `.grad` that it has, or added to it.
  bool is_sure(const at::Tensor &t) { return met(t).sure; }

private:
  struct Known {
    at::Tensor tensor;
    GradState before;  ///< the call
    bool sure = false; ///< has a gradient, or none, for any state before the call
    bool read = false; ///< while it was not sure
    const c10::TensorImpl *grad = nullptr; ///< what the graph has; the tracer keeps its address
  };
  Known &met(const at::Tensor &t);

  struct Leaf {
    at::Tensor tensor;
    const c10::TensorImpl *grad; ///< before the engine ran
    std::int64_t version;
  };
  std::vector<Leaf> leaves_; ///< that the engine may reach, while it runs
  int runs_ = 0;
  std::unordered_map<const c10::TensorImpl *, Known> known_;
};

/// Makes the tensors of `call` known to the trace, and brings its modes up to date. Raises for a
/// call that can't be recorded. Requires: recording().
void prepare_engine_call(const EngineCall &call);
/// Records a call that has run. `results`: as many as inputs, undefined for None; none where it
/// accumulates. Requires: recording(), prepare_engine_call() before.
void record_engine_call(const EngineCall &call, const std::vector<at::Tensor> &results);

/// The tensor that has `t`'s `.grad`: of a block's result that is a leaf in eager, the leaf itself.
/// Requires: active().
at::Tensor owner_of_grad(const at::Tensor &t);
/// The body gets the `.grad` that `t` has now. Requires: recording().
void read_grad(const at::Tensor &t);
/// The body is about to set `t`'s `.grad`: what the gradient is now can still be seen. Requires:
/// recording().
void meet(const at::Tensor &t);
/// The body is about to set the `.grad` of `t`. Raises if `grad` has no data, as a `.grad` would
/// keep it, and where the body runs only to be recorded.
void check_grad_is_set(const at::Tensor &t, const at::Tensor &grad);
/// The body has set `t`'s `.grad` to what it is now. Requires: recording().
void written_grad(const at::Tensor &t);
/// The body has called t.retain_grad(). Requires: recording().
void retained_grad(const at::Tensor &t);

} // namespace tracehost::trace
