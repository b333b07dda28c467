#include "capture/training.h"

#include "capture/effects.h"
#include "signature/grad_read.h"

#include <c10/core/AutogradState.h>

#include <iterator>

namespace tracehost::capture {

namespace jit = torch::jit;

namespace {

/// The engine runs the ops of a device in a thread of its own, where nobody writes them down.
class EngineOnThisThread {
public:
  EngineOnThisThread() { state().set_multithreading_enabled(false); }
  ~EngineOnThisThread() { state().set_multithreading_enabled(before_); }
  EngineOnThisThread(const EngineOnThisThread &) = delete;
  EngineOnThisThread &operator=(const EngineOnThisThread &) = delete;

private:
  static c10::AutogradState &state() { return c10::AutogradState::get_tls_state(); }
  const bool before_ = state().get_multithreading_enabled();
};

tape::FlatGraph flatten_on_device(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                  bool draws, void (*complete_places)(jit::Block &)) {
  const EngineOnThisThread here;
  const DrawsUndone undone(device_of_inputs(inputs), draws);
  tape::FlatGraph flat = tape::flatten(graph, inputs, /*limited=*/false);
  if (complete_places)
    complete_places(*flat.graph->block());
  return flat;
}

} // namespace

TrainingStep::TrainingStep(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs, bool draws,
                           void (*complete_places)(jit::Block &))
    : inputs_(inputs.size()), leaves_(inputs),
      flat_(flatten_on_device(graph, inputs, draws, complete_places)),
      gradients_(gradients(inputs)), code_(flat_.graph, "step") {}

std::vector<c10::IValue> TrainingStep::gradients(c10::ArrayRef<c10::IValue> inputs) const {
  std::vector<c10::IValue> gradients;
  for (const std::size_t input : flat_.reads)
    gradients.emplace_back(grad_of(inputs[input].toTensor()));
  return gradients;
}

bool TrainingStep::holds(c10::ArrayRef<c10::IValue> inputs) const {
  return leaves_.hold(inputs) && gradients_.is_like(gradients(inputs));
}

std::vector<c10::IValue> TrainingStep::with_gradients(c10::ArrayRef<c10::IValue> inputs) const {
  std::vector<c10::IValue> given = inputs.vec(), read = gradients(inputs);
  given.insert(given.end(), std::make_move_iterator(read.begin()),
               std::make_move_iterator(read.end()));
  return given;
}

std::vector<std::int64_t> TrainingStep::writes_to_gradients() const {
  std::vector<std::int64_t> writes;
  for (std::size_t i = inputs_; i < flat_.graph->inputs().size(); ++i) {
    const auto found = flat_.versions.find(flat_.graph->inputs()[i]);
    writes.push_back(found == flat_.versions.end() ? 0 : found->second);
  }
  return writes;
}

void TrainingStep::set_gradients(c10::ArrayRef<c10::IValue> inputs, jit::Stack &results) const {
  for (std::size_t i = flat_.sets.size(); i-- > 0;) {
    const tape::FlatGraph::Set &set = flat_.sets[i];
    inputs[set.input].toTensor().mutable_grad() =
        set.to_none ? at::Tensor() : jit::pop(results).toTensor();
  }
}

void TrainingStep::append_gradients(c10::ArrayRef<c10::IValue> inputs, jit::Stack &results) const {
  for (const tape::FlatGraph::Set &set : flat_.sets)
    if (!set.to_none)
      results.emplace_back(grad_of(inputs[set.input].toTensor()));
}

} // namespace tracehost::capture
