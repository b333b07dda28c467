#include "trace/modes.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

namespace tracehost::trace {
namespace {

std::uint64_t autocast_bits() {
  std::uint64_t bits = 0;
  for (const auto device : {at::kCPU, at::kCUDA}) {
    bits <<= 8;
    if (at::autocast::is_autocast_enabled(device))
      bits |= static_cast<std::uint64_t>(at::autocast::get_autocast_dtype(device)) + 1;
  }
  return bits;
}

} // namespace

ModeRecord ModeRecord::now() {
  ModeRecord r;
  r.grad_ = at::GradMode::is_enabled();
  r.inference_ = c10::InferenceMode::is_enabled();
  r.autocast_ = autocast_bits();
  return r;
}

bool ModeRecord::is_now() const {
  return grad_ == at::GradMode::is_enabled() && inference_ == c10::InferenceMode::is_enabled() &&
         autocast_ == autocast_bits();
}

std::string ModeRecord::record_changes(int depth) {
  // Inside autocast's own kernels the mode looks off.
  if (depth == 0 && autocast_bits() != autocast_)
    return "an autocast region inside of the body is not supported yet: put `with "
           "torch.autocast(...)` "
           "around the call";
  if (c10::InferenceMode::is_enabled() != inference_)
    return "inference_mode inside of the body is not supported: put it around the call, or use "
           "torch.no_grad()";
  if (const bool grad = at::GradMode::is_enabled(); grad != grad_) {
    const auto &graph = torch::jit::tracer::getTracingState()->graph;
    auto *on = graph->insertConstant(grad);
    graph->insertNode(
        graph->create(c10::Symbol::fromQualString("aten::set_grad_enabled"), {on}, 0));
    grad_ = grad;
  }
  return {};
}

AutocastCacheOff::AutocastCacheOff() : before_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_cache_enabled(false);
}
AutocastCacheOff::~AutocastCacheOff() { at::autocast::set_autocast_cache_enabled(before_); }

} // namespace tracehost::trace
