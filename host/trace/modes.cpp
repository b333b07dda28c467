#include "trace/modes.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

namespace tracehost::trace {

ModeRecord ModeRecord::now() {
  ModeRecord r;
  r.grad_ = at::GradMode::is_enabled();
  r.inference_ = c10::InferenceMode::is_enabled();
  r.autocasts_ = autocasts_now();
  r.cache_ = at::autocast::is_autocast_cache_enabled();
  r.regions_ = autocast_regions();
  return r;
}

bool ModeRecord::is_now() const {
  return grad_ == at::GradMode::is_enabled() && left_switched().empty();
}

void ModeRecord::record_changes(int depth) {
  const ModeRecord now = ModeRecord::now();
  const auto &graph = torch::jit::tracer::getTracingState()->graph;
  if (depth == 0) { // inside autocast's own kernels the mode looks off
    if (now.regions_ != regions_ || now.cache_ != cache_)
      insert_autocast_regions(*graph, now.regions_ - regions_, now.cache_);
    insert_autocasts(*graph, autocasts_, now.autocasts_);
    autocasts_ = now.autocasts_;
    cache_ = now.cache_;
    regions_ = now.regions_;
  }
  if (now.inference_ != inference_) {
    insert_inference_mode(*graph, now.inference_);
    inference_ = now.inference_;
    grad_ = !now.inference_; // goes with it
  }
  if (now.grad_ != grad_) {
    auto *on = graph->insertConstant(now.grad_);
    graph->insertNode(
        graph->create(c10::Symbol::fromQualString("aten::set_grad_enabled"), {on}, 0));
    grad_ = now.grad_;
  }
}

std::string ModeRecord::left_switched() const {
  if (c10::InferenceMode::is_enabled() != inference_)
    return "inference mode is switched for what comes after";
  if (autocasts_ != autocasts_now() || cache_ != at::autocast::is_autocast_cache_enabled() ||
      regions_ != autocast_regions())
    return "autocast is switched for what comes after";
  return {};
}

ThreadModes ThreadModes::now() {
  return {at::GradMode::is_enabled(), c10::InferenceMode::is_enabled(), autocasts_now()};
}

ModesOfCall::ModesOfCall(Frontend &frontend, const ThreadModes &of_call, bool with_data)
    : frontend_(frontend), of_call_(of_call) {
  forget_casts(frontend_);
  if (of_call.inference != before_.inference)
    inference_.emplace(of_call.inference);
  if (with_data)
    with_data_.emplace();
  at::GradMode::set_enabled(of_call.grad);
  set_autocasts(of_call.autocasts);
}

ModesOfCall::~ModesOfCall() {
  with_data_.reset();
  inference_.reset();
  at::GradMode::set_enabled(before_.grad);
  set_autocasts(before_.autocasts);
  forget_casts(frontend_);
}

OwnCasts::OwnCasts(Frontend &frontend) : frontend_(frontend) { forget_casts(frontend_); }

OwnCasts::~OwnCasts() { forget_casts(frontend_); }

void forget_casts(Frontend &frontend) { frontend.blocking(at::autocast::clear_cache); }

} // namespace tracehost::trace
