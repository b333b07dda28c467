#include "trace/modes.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

namespace tracehost::trace {
namespace {

constexpr std::array kAutocastDevices = {at::kCPU, at::kCUDA};

void set_autocast(const ThreadModes &modes) {
  for (std::size_t i = 0; i < kAutocastDevices.size(); ++i) {
    at::autocast::set_autocast_enabled(kAutocastDevices[i], modes.autocast[i].on);
    at::autocast::set_autocast_dtype(kAutocastDevices[i], modes.autocast[i].dtype);
  }
}

std::uint64_t autocast_bits() {
  std::uint64_t bits = 0;
  for (const auto device : kAutocastDevices) {
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

ThreadModes ThreadModes::now() {
  ThreadModes modes{at::GradMode::is_enabled(), c10::InferenceMode::is_enabled(), {}};
  for (std::size_t i = 0; i < kAutocastDevices.size(); ++i)
    modes.autocast[i] = {at::autocast::is_autocast_enabled(kAutocastDevices[i]),
                         at::autocast::get_autocast_dtype(kAutocastDevices[i])};
  return modes;
}

ModesOfCall::ModesOfCall(const ThreadModes &of_call, bool with_data) : of_call_(of_call) {
  if (of_call.inference != before_.inference)
    inference_.emplace(of_call.inference);
  if (with_data)
    with_data_.emplace(
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  at::GradMode::set_enabled(of_call.grad);
  set_autocast(of_call);
}

ModesOfCall::~ModesOfCall() {
  with_data_.reset();
  inference_.reset();
  at::GradMode::set_enabled(before_.grad);
  set_autocast(before_);
}

AutocastCacheOff::AutocastCacheOff() : before_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_cache_enabled(false);
}
AutocastCacheOff::~AutocastCacheOff() { at::autocast::set_autocast_cache_enabled(before_); }

} // namespace tracehost::trace
