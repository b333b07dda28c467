#include "signature/thread.h"

#include <torch/csrc/jit/frontend/tracer.h>

namespace tracehost {

constinit thread_local Thread Thread::of_thread_;

const Thread &Thread::find() {
  of_thread_.tracing = &torch::jit::tracer::getTracingState();
  of_thread_.autograd = &c10::AutogradState::get_tls_state();
  of_thread_.keys = &c10::impl::raw_local_dispatch_key_set;
  return of_thread_;
}

} // namespace tracehost
