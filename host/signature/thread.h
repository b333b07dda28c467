#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>

namespace torch::jit::tracer {
struct TracingState;
}

namespace tracehost {

/// Where torch keeps what a call reads of its thread. Each of these is a function of torch's
/// libraries with a thread-local of its own: 34 instructions. Their addresses stay the same as long
/// as the thread lives, so a thread asks for them once.
struct Thread {
  const c10::impl::PODLocalDispatchKeySet *keys = nullptr;
  const c10::AutogradState *autograd = nullptr;
  const std::shared_ptr<torch::jit::tracer::TracingState> *tracing = nullptr;

  /// Hot. This thread's.
  static const Thread &here() {
    const Thread &known = of_thread_;
    return known.keys ? known : find();
  }

private:
  static const Thread &find();
  static constinit thread_local Thread of_thread_;
};

} // namespace tracehost
