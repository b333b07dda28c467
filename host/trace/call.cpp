#include "trace/call.h"

#include "trace/modes.h"
#include "trace/scope.h"

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

void Scope::prepare_call(const std::vector<at::Tensor> &inputs) {
  if (dynamic_sizes)
    dynamic_sizes->settle();
  record_modes();
  for (const at::Tensor &t : inputs)
    know(t);
}

void Scope::record_call(c10::intrusive_ptr<Callback> callback,
                        const std::vector<at::Tensor> &inputs,
                        const std::vector<at::Tensor> &outputs) {
  const auto &state = tracer::getTracingState();
  std::vector<jit::Value *> values;
  for (const at::Tensor &t : inputs)
    values.push_back(state->getValue(t));
  jit::Node *results = insert_call(*state->graph, callback, values);
  tracer::recordSourceLocation(results->input()->node());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    state->setValue(outputs[i], results->output(i));
    if (!callback->results[i].is_exact() && outputs[i].dim() > 0)
      inexact.insert(results->output(i));
  }
  if (dynamic_sizes)
    dynamic_sizes->after(outputs);
}

void prepare_call(const std::vector<at::Tensor> &inputs) {
  current->prepare_call(inputs);
  current->note_effect("a call of Python");
}

void record_call(c10::intrusive_ptr<Callback> callback, const std::vector<at::Tensor> &inputs,
                 const std::vector<at::Tensor> &outputs) {
  current->record_call(std::move(callback), inputs, outputs);
}

void note_raised(const std::string &message) { current->raised = message; }
bool without_data() { return current->without_data(); }

Called::Called() : scope_(std::exchange(current, nullptr)) { scope_->forget_casts(); }
Called::~Called() {
  current = scope_;
  scope_->forget_casts();
}

} // namespace tracehost::trace
