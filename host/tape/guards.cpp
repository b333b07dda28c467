#include "tape/guards.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/cpu/FlushDenormal.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <xmmintrin.h>

#include <algorithm>

namespace tracehost::tape {
namespace {

constexpr unsigned kFlushes = _MM_FLUSH_ZERO_MASK | 0x40; // and denormals are zero

bool is_plain(const at::Tensor &t) {
  return t.defined() && t.layout() == at::kStrided && t.device().is_cpu() && t.has_storage() &&
         !t.is_conj() && !t.is_neg() && !t._is_zerotensor() &&
         !t.unsafeGetTensorImpl()->is_python_dispatch();
}

} // namespace

Settings Settings::now() {
  const auto local = c10::impl::tls_local_dispatch_key_set();
  at::Context &context = at::globalContext();
  Settings settings;
  settings.included = local.included_;
  settings.excluded = local.excluded_;
  settings.observed = at::hasCallbacks();
  settings.deterministic = context.deterministicAlgorithms();
  settings.mkldnn = context.userEnabledMkldnn();
  settings.flush_denormals = (_mm_getcsr() & kFlushes) != 0;
  settings.matmul_precision = static_cast<int>(context.float32MatmulPrecision());
  return settings;
}

bool Guards::can_be_recorded(c10::ArrayRef<c10::IValue> inputs) {
  const bool grad = c10::GradMode::is_enabled();
  return std::all_of(inputs.begin(), inputs.end(), [&](const c10::IValue &input) {
    if (!input.isTensor())
      return false;
    const at::Tensor &t = input.toTensor();
    return is_plain(t) && !(grad && t.requires_grad()) &&
           at::has_internal_overlap(t) == at::MemOverlap::No;
  });
}

Guards::Guards(c10::ArrayRef<c10::IValue> inputs) {
  for (const c10::IValue &input : inputs) {
    const at::Tensor &t = input.toTensor();
    inputs_.push_back({t.key_set(), t.scalar_type(), t.sizes().vec(), t.strides().vec()});
  }
}

bool Guards::hold(c10::ArrayRef<c10::IValue> inputs) const {
  const bool grad = c10::GradMode::is_enabled();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Input &then = inputs_[i];
    if (!inputs[i].isTensor())
      return false;
    const at::TensorImpl &t = *inputs[i].toTensor().unsafeGetTensorImpl();
    if (t.key_set() != then.keys || t.dtype() != c10::scalarTypeToTypeMeta(then.dtype) ||
        t.sizes() != then.sizes || t.strides() != then.strides || (grad && t.requires_grad()))
      return false;
    const auto at = reinterpret_cast<std::uintptr_t>(t.data());
    if (at % t.itemsize() != 0)
      return false;
  }
  return true;
}

} // namespace tracehost::tape
