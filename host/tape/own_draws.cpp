#include "tape/own_draws.h"

#include <ATen/CPUGeneratorImpl.h>

namespace tracehost::tape {
namespace {

at::Generator generator_at(const at::Tensor &state) {
  at::Generator made = at::make_generator<at::CPUGeneratorImpl>();
  made.set_state(state);
  return made;
}

} // namespace

thread_local const OwnDraws *OwnDraws::current = nullptr;

OwnDraws::OwnDraws(const at::Tensor &state) : generator_(generator_at(state)), watched_(watch()) {}

shapes::WatchedOps::Watch OwnDraws::watch() {
  return [this](const c10::OperatorHandle &op, c10::DispatchKeySet below,
                torch::jit::Stack &stack) { see(op, below, stack); };
}

void OwnDraws::see(const c10::OperatorHandle &op, c10::DispatchKeySet below,
                   torch::jit::Stack &stack) {
  const auto &formal = op.schema().arguments();
  for (std::size_t i = 0; i < formal.size(); ++i) {
    c10::IValue &given = stack[stack.size() - formal.size() + i];
    if (formal[i].name() == "generator" && given.isNone())
      given = generator_;
  }
  const shapes::WatchedOps ops_that_it_calls(watch());
  op.redispatchBoxed(below, &stack);
}

} // namespace tracehost::tape
