#include "validate/draws.h"

#include "tape/generator.h"
#include "trace/op_hook.h"
#include "trace/op_tensors.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>

#include <algorithm>

namespace tracehost::validate {

using tape::set_state;
using tape::state_of;

void Draws::before(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  const auto arguments = trace::arguments_of(op, stack);
  bool own = false;
  for (const c10::IValue &value : arguments)
    if (value.isGenerator() && value.toGenerator().defined()) {
      save(value.toGenerator());
      own = true;
    }
  if (own)
    return;
  for (const c10::IValue &value : arguments)
    if (value.isDevice())
      save_default(value.toDevice());
  save_default(at::kCPU);
  trace::each_tensor(arguments, [&](const at::Tensor &t) { save_default(t.device()); });
}

void Draws::save_default(c10::Device device) {
  if (!device.is_cpu() && !device.is_cuda())
    return;
  save(at::globalContext().defaultGenerator(device));
}

void Draws::save(const at::Generator &generator) {
  const bool known = std::any_of(generators_.begin(), generators_.end(),
                                 [&](const Saved &saved) { return saved.generator == generator; });
  if (!known)
    generators_.push_back({generator, state_of(generator)});
}

Draws::States Draws::now() const {
  States result;
  for (const Saved &saved : generators_)
    result.push_back(state_of(saved.generator));
  return result;
}

void Draws::rewind() const {
  for (const Saved &saved : generators_)
    set_state(saved.generator, saved.state);
}

void Draws::set(const States &states) const {
  for (std::size_t i = 0; i < states.size(); ++i)
    set_state(generators_[i].generator, states[i]);
}

bool Draws::equal(const States &a, const States &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor &x, const at::Tensor &y) { return at::equal(x, y); });
}

} // namespace tracehost::validate
