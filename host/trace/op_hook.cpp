#include "trace/op_hook.h"

#include "shapes/without_data.h"
#include "trace/op_traits.h"
#include "trace/tracer.h"
#include "trace/written_collectives.h"

#include <ATen/TracerMode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/library.h>

#include <optional>
#include <utility>

namespace tracehost::trace {
namespace {

// The one key above autocast that has no kernels in torch. It is meant for torch's own tests; no
// code of torch switches it on, and a thread that does not trace never includes it.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

constexpr c10::DispatchKeySet kWithoutData({shapes::kKey});

thread_local OpHook *hook = nullptr;
thread_local int depth = 0;

struct Deeper {
  Deeper() { ++depth; }
  ~Deeper() { --depth; }
};

/// Whether the op is to be recorded; asks the hook.
bool is_recorded(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  if (!hook)
    return false;
  // The kernel of an op around this one may have switched the tracer on again.
  if (hook->abandoned()) {
    set_tracing_state(nullptr);
    return false;
  }
  try {
    if (tracer_records()) {
      hook->before(op, stack);
      return true;
    }
    if (torch::jit::tracer::isTracing())
      hook->unrecorded(op, stack);
    else
      hook->outside(op, stack);
  } catch (const Abandoned &) {
  }
  return false;
}

bool runs_aside(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  if (!hook || hook->abandoned() || !tracer_records())
    return false;
  try {
    return hook->runs_aside(op, stack);
  } catch (const Abandoned &) {
    return false;
  }
}

std::optional<c10::OperatorHandle> instead(const c10::OperatorHandle &op) {
  return hook && !hook->abandoned() && tracer_records() ? hook->instead(op) : std::nullopt;
}

bool communicates_instead(const c10::OperatorHandle &op, torch::jit::Stack &stack) {
  return hook && !hook->abandoned() && tracer_records() && traits(op).collective &&
         run_functional(op, stack);
}

void run(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  if (hook->is_of_sizes(op, *stack)) {
    const shapes::WithData for_real;
    Deeper deeper;
    op.redispatchBoxed(keys - kWithoutData, stack);
    return;
  }
  hook->substitute(op, *stack);
  std::optional<Paused> untraced;
  if (hook->records(op)) {
    hook->record(op, *stack);
    untraced.emplace();
  }
  Deeper deeper;
  if (untraced && shapes::runs_above(op))
    shapes::run_above(op, *stack);
  else
    op.redispatchBoxed(keys, stack);
}

void dispatch(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  if (!hook) { // restored by something that has outlived a trace: signature/context.cpp
    c10::impl::tls_set_dispatch_key_included(kKey, false);
    op.redispatchBoxed(below, stack);
    return;
  }
  if (runs_aside(op, *stack)) {
    const Aside aside;
    op.callBoxed(stack);
    return;
  }
  if (const auto other = instead(op))
    return other->callBoxed(stack);
  if (communicates_instead(op, *stack))
    return;
  if (!is_recorded(op, *stack)) {
    const bool real = hook && torch::jit::tracer::isTracing() && hook->keeps_data(op);
    op.redispatchBoxed(real ? below - kWithoutData : below, stack);
    return;
  }
  try {
    run(op, below, stack);
  } catch (const c10::Error &error) {
    hook->failed(op);
    shapes::check_memory_read(op, error);
    throw;
  } catch (...) {
    hook->failed(op);
    throw;
  }
  if (hook->abandoned() || !tracer_records())
    return;
  try {
    hook->after(op, *stack);
  } catch (const Abandoned &) { // the op has run
  }
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&dispatch>());
}

} // namespace

InstalledHook::InstalledHook(OpHook *installed)
    : previous_(std::exchange(hook, installed)),
      included_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  c10::impl::tls_set_dispatch_key_included(kKey, installed != nullptr);
}

InstalledHook::~InstalledHook() {
  hook = previous_;
  c10::impl::tls_set_dispatch_key_included(kKey, included_);
}

void set_tracing_state(std::shared_ptr<torch::jit::tracer::TracingState> state) {
  const bool excluded = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Tracer);
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::Tracer, false);
  torch::jit::tracer::setTracingState(std::move(state));
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::Tracer, excluded);
}

struct Aside::Guards {
  Paused untraced;
  InstalledHook no_hook{nullptr};
  at::AutoDispatchBelowADInplaceOrView no_grad_keys;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset | kWithoutData};
  at::NoGradGuard no_grad;
};

Aside::Aside() : guards_(std::make_unique<Guards>()) {}
Aside::~Aside() = default;

int op_depth() { return depth; }

bool tracer_records() {
  return torch::jit::tracer::isTracing() && at::tracer::impl::is_dispatch_enabled();
}

} // namespace tracehost::trace
