#include "signature/context.h"

#include "signature/signature.h"
#include "signature/thread.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tracehost {
namespace {

/// Off is an excluded dispatch key, which has been read anyway.
at::ScalarType autocast_dtype(c10::DispatchKeySet excluded, c10::DispatchKey key,
                              at::DeviceType device) {
  return excluded.has(key) ? at::ScalarType::Undefined : at::autocast::get_autocast_dtype(device);
}

const char *switched(bool on) { return on ? "on" : "off"; }

std::string autocast_text(at::ScalarType dtype) {
  return dtype == at::ScalarType::Undefined ? "off" : dtype_name(dtype);
}

std::string device_text(std::int32_t device) {
  return device == 0 ? "none"
                     : text(Signature(), {.kind = Kind::device, .payload = {.integer = device}});
}

/// Keys that one Context has and the other has not.
std::string keys_text(const Context &context, const Context &other) {
  const auto included = context.included & ~other.included;
  const auto excluded = context.excluded & ~other.excluded;
  std::string result;
  if (included)
    result += "with " + c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, included));
  if (excluded)
    result += (result.empty() ? "without " : ", without ") +
              c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, excluded));
  return result.empty() ? "as usual" : result;
}

} // namespace

Context Context::now() {
  const Thread &thread = Thread::here();
  const c10::impl::LocalDispatchKeySet keys(*thread.keys);
  const auto &autograd = *thread.autograd;
  Context context;
  // The key of trace/op_hook.cpp is left out. An InferenceMode that began in a body and ends after
  // the body (a generator's, when it is collected) sets that key again.
  context.included = keys.included_.remove(c10::DispatchKey::TESTING_ONLY_GenericMode).raw_repr();
  context.excluded = keys.excluded_.raw_repr();
  context.grad = autograd.get_grad_mode();
  context.inference = autograd.get_inference_mode();
  context.deterministic = at::globalContext().deterministicAlgorithms();
  context.default_dtype = c10::get_default_dtype_as_scalartype();
  context.autocast_cpu = autocast_dtype(keys.excluded_, c10::DispatchKey::AutocastCPU, at::kCPU);
  context.autocast_cuda = autocast_dtype(keys.excluded_, c10::DispatchKey::AutocastCUDA, at::kCUDA);
  return context;
}

std::vector<ContextDifference> differences(const Context &before, const Context &after) {
  std::vector<ContextDifference> result;
  const auto compare = [&](const char *field, auto member, const auto &text) {
    if (before.*member != after.*member)
      result.push_back({field, text(before.*member), text(after.*member)});
  };
  compare("inference mode", &Context::inference, switched);
  if (result.empty()) // inference mode takes grad mode with it
    compare("grad mode", &Context::grad, switched);
  compare("autocast on cpu", &Context::autocast_cpu, autocast_text);
  compare("autocast on cuda", &Context::autocast_cuda, autocast_text);
  // Both switch dispatch keys: those are news only where nothing above explains them.
  if (result.empty() && (before.included != after.included || before.excluded != after.excluded))
    result.push_back({"dispatch keys", keys_text(before, after), keys_text(after, before)});
  compare("default dtype", &Context::default_dtype, dtype_name);
  compare("default device", &Context::default_device, device_text);
  compare("deterministic algorithms", &Context::deterministic, switched);
  return result;
}

} // namespace tracehost
