#include "tape/tape.h"

#include "tape/steps.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/ScopeExit.h>

#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>

namespace tracehost::tape {

Tape::~Tape() = default;

void Tape::bind(std::size_t index, void *data) {
  Root &root = roots_[index];
  for (const Patch &patch : root.patches)
    patch.iterator->unsafe_replace_operand(patch.operand, static_cast<char *>(data) + patch.offset);
  if (root.has_tensors)
    root.storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
        at::DataPtr(data, c10::DeviceType::CPU));
}

void Tape::CallStep::run(Tape &tape) {
  stack.assign(arguments.begin(), arguments.end());
  operation(stack);
  const std::size_t first = stack.size() - results.size();
  for (std::size_t i = 0; i < results.size(); ++i) {
    at::Tensor &result = tape.called_[results[i]];
    result = std::move(stack[first + i]).toTensor();
    tape.bind(results[i], result.data_ptr());
  }
  stack.clear();
}

bool Tape::try_run(jit::Stack &stack) {
  try {
    run(stack);
    return true;
  } catch (const std::exception &) { // nothing is written: the interpreter raises it with its line
    return false;
  }
}

void Tape::run(jit::Stack &stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::size_t inputs = input_roots_.size();
  const auto given = jit::last(stack, inputs);
  for (std::size_t i = 0; i < inputs; ++i)
    bind(input_roots_[i], const_cast<void *>(given[i].toTensor().const_data_ptr()));
  c10::SmallVector<at::Tensor, 4> outputs;
  for (const Output &output : outputs_) {
    if (output.from != Output::From::fresh) {
      outputs.emplace_back();
      continue;
    }
    outputs.push_back(at::detail::empty_strided_cpu(output.sizes, output.strides, output.dtype));
    bind(output.index, outputs.back().data_ptr());
  }
  const auto forget = c10::make_scope_exit([this] {
    for (at::Tensor &result : called_)
      result.reset();
  });
  for (const auto &step : steps_)
    step->run(*this);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Output &output = outputs_[i];
    if (output.from == Output::From::input)
      outputs[i] = given[output.index].toTensor();
    else if (output.from == Output::From::called)
      outputs[i] = called_[output.index];
    else if (output.from == Output::From::earlier)
      outputs[i] = outputs[output.index];
  }
  jit::drop(stack, inputs);
  for (at::Tensor &output : outputs)
    stack.emplace_back(std::move(output));
}

/// What is known of the calls so far.
struct Tapes::Impl {
  const jit::Graph &graph;
  std::mutex mutex;
  std::unique_ptr<Guards> seen; ///< of the last call that no tape served
  std::unique_ptr<Tape> tape;
  std::string why; ///< there is none
};

Tapes::Tapes(const jit::Graph &graph) : impl_(new Impl{graph, {}, {}, {}, {}}) {}
Tapes::~Tapes() = default;

bool Tapes::enabled() {
  static const bool on = [] {
    const char *set = std::getenv("TRACEHOST_OPTIMIZE");
    return set && std::string_view(set) == "exact";
  }();
  return on;
}

bool Tapes::run(jit::Stack &stack) {
  Impl &self = *impl_;
  const std::unique_lock lock(self.mutex, std::try_to_lock);
  if (!lock || !self.why.empty())
    return false;
  const auto inputs = jit::last(stack, self.graph.inputs().size());
  if (self.tape) {
    if (!self.tape->guards().hold(inputs) || self.tape->guards().settings() != Settings::now())
      return false;
    return self.tape->try_run(stack);
  }
  if (!Guards::can_be_recorded(inputs))
    return false;
  if (!self.seen || !self.seen->hold(inputs)) {
    self.seen = std::make_unique<Guards>(inputs);
    return false;
  }
  self.tape = Tape::record(self.graph, inputs, self.why);
  self.seen.reset();
  return false;
}

std::string Tapes::describe() const {
  const std::unique_lock lock(impl_->mutex);
  return impl_->tape ? "tape" : "interpreter" + (impl_->why.empty() ? "" : ": " + impl_->why);
}

} // namespace tracehost::tape
