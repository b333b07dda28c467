#include "trace/call.h"

#include "trace/modes.h"
#include "trace/trace.h"

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

void Trace::prepare_inputs(const std::vector<at::Tensor> &tensors) {
  if (dynamic_sizes)
    dynamic_sizes->settle();
  record_modes();
  for (const at::Tensor &t : tensors)
    inputs.know(t);
}

void prepare_call(const std::vector<at::Tensor> &inputs) {
  current->prepare_inputs(inputs);
  current->effects.note("a call of Python");
}

void record_call(c10::intrusive_ptr<Callback> callback, const std::vector<at::Tensor> &inputs,
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
      current->value_sizes.note(results->output(i));
  }
  if (current->dynamic_sizes)
    current->dynamic_sizes->after(outputs);
}

void note_raised(const std::string &message) { current->raised = message; }
bool without_data() { return current->without_data(); }

Called::Called() : trace_(std::exchange(current, nullptr)) { trace_->forget_casts(); }
Called::~Called() {
  current = trace_;
  trace_->forget_casts();
}

} // namespace tracehost::trace
