#include "trace/modes.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

namespace tracehost::trace {

ThreadModes ThreadModes::now() {
  return {at::GradMode::is_enabled(), c10::InferenceMode::is_enabled(), autocasts_now(),
          at::autocast::is_autocast_cache_enabled(), autocast_regions()};
}

bool ThreadModes::is_now() const {
  return grad == at::GradMode::is_enabled() && left_switched().empty();
}

void ThreadModes::restore() const {
  at::GradMode::set_enabled(grad);
  set_autocasts(autocasts);
  at::autocast::set_autocast_cache_enabled(cache);
}

void ThreadModes::record_changes(int depth) {
  const ThreadModes now = ThreadModes::now();
  const auto &graph = torch::jit::tracer::getTracingState()->graph;
  if (depth == 0) { // inside autocast's own kernels the mode looks off
    if (now.regions != regions || now.cache != cache)
      insert_autocast_regions(*graph, now.regions - regions, now.cache);
    insert_autocasts(*graph, autocasts, now.autocasts);
    autocasts = now.autocasts;
    cache = now.cache;
    regions = now.regions;
  }
  if (now.inference != inference) {
    insert_inference_mode(*graph, now.inference);
    inference = now.inference;
    grad = !now.inference; // goes with it
  }
  if (now.grad != grad) {
    auto *on = graph->insertConstant(now.grad);
    graph->insertNode(
        graph->create(c10::Symbol::fromQualString("aten::set_grad_enabled"), {on}, 0));
    grad = now.grad;
  }
}

std::string ThreadModes::left_switched() const {
  if (c10::InferenceMode::is_enabled() != inference)
    return "inference mode is switched for what comes after";
  if (autocasts != autocasts_now() || cache != at::autocast::is_autocast_cache_enabled() ||
      regions != autocast_regions())
    return "autocast is switched for what comes after";
  return {};
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

void forget_casts(Frontend &frontend) { frontend.blocking(at::autocast::clear_cache); }

} // namespace tracehost::trace
