#include "tape/guards.h"

#include "signature/thread.h"
#include "tape/replaced_kernels.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/cpu/FlushDenormal.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/variable.h>

#include <xmmintrin.h>

#include <algorithm>

namespace tracehost::tape {
namespace {

constexpr unsigned kFlushes = _MM_FLUSH_ZERO_MASK | 0x40; // and denormals are zero

} // namespace

/// As the dispatcher asks: at::hasCallbacks() takes a lock.
bool is_observed() {
  return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value();
}

bool has_tangent(const at::TensorImpl &t) {
  const auto *meta = static_cast<const torch::autograd::AutogradMeta *>(t.autograd_meta());
  return meta && meta->fw_grad_ && !meta->fw_grad_->empty();
}

bool is_plain_on_its_device(const at::Tensor &t) {
  return t.defined() && t.layout() == at::kStrided && t.has_storage() && !t.is_conj() &&
         !t.is_neg() && !t._is_zerotensor() && !at::isQIntType(t.scalar_type()) &&
         !t.unsafeGetTensorImpl()->is_python_dispatch() && !has_tangent(*t.unsafeGetTensorImpl());
}

bool is_plain(const at::Tensor &t) { return is_plain_on_its_device(t) && t.device().is_cpu(); }

Settings Settings::now() {
  const at::Context &process = at::globalContext();
  const Thread &thread = Thread::here();
  const c10::impl::LocalDispatchKeySet keys(*thread.keys);
  Settings settings;
  settings.included = keys.included_;
  settings.excluded = keys.excluded_;
  settings.grad = thread.autograd->get_grad_mode();
  settings.observed = is_observed();
  settings.deterministic = process.deterministicAlgorithms();
  settings.fills_memory = settings.deterministic && process.deterministicFillUninitializedMemory();
  settings.mkldnn = process.userEnabledMkldnn();
  settings.flush_denormals = (_mm_getcsr() & kFlushes) != 0;
  settings.kernels = mark_of_kernels();
  return settings;
}

bool are_products_ieee() {
  const auto precision =
      at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
  return precision == at::Float32Precision::NONE || precision == at::Float32Precision::IEEE;
}

bool Settings::are_plain() const {
  const c10::DispatchKeySet views(c10::DispatchKey::ADInplaceOrView); // not in inference mode
  return (included | views) == c10::default_included_set &&
         excluded.has_all(c10::autocast_dispatch_keyset) && !observed;
}

Guards::Kind Guards::kind_of(const c10::IValue &value) {
  if (value.isTensor())
    return Kind::tensor;
  if (value.isInt())
    return Kind::integer;
  if (value.isDouble())
    return Kind::real;
  return value.isBool() ? Kind::boolean : Kind::none;
}

bool Guards::can_be_recorded(c10::ArrayRef<c10::IValue> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [&](const c10::IValue &input) {
    if (!input.isTensor())
      return input.isNone() || kind_of(input) != Kind::none;
    const at::Tensor &t = input.toTensor();
    return is_plain(t);
  });
}

Guards::Guards(c10::ArrayRef<c10::IValue> inputs) {
  for (const c10::IValue &input : inputs) {
    Input &guard = inputs_.emplace_back();
    guard.kind = kind_of(input);
    if (guard.kind != Kind::tensor)
      continue;
    const at::Tensor &t = input.toTensor();
    guard.keys = t.key_set();
    guard.dtype = t.scalar_type();
    guard.sizes = t.sizes().vec();
    guard.strides = t.strides().vec();
    guard.unaligned = t.itemsize() - 1;
    guard.requires_grad = t.requires_grad();
  }
}

MemoryRange::MemoryRange(const at::Tensor &t)
    : begin(reinterpret_cast<std::uintptr_t>(t.const_data_ptr())),
      end(begin + at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize())) {}

void Guards::set_written(const std::vector<std::size_t> &inputs) {
  writes_ = true;
  for (const std::size_t i : inputs)
    inputs_[i].written = true;
}

/// Parameters stay where they are: the inputs that have moved are compared with all others.
bool Guards::are_apart(c10::ArrayRef<c10::IValue> inputs) {
  moved_.clear();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].kind == Kind::tensor)
      if (const MemoryRange now(inputs[i].toTensor()); now != inputs_[i].range) {
        inputs_[i].range = now;
        moved_.push_back(i);
      }
  if (moved_.empty() || !any_written_shares())
    return true;
  for (Input &input : inputs_)
    input.range = {};
  return false;
}

/// Of few inputs that have moved, each is compared with all; of many, all are sorted.
bool Guards::any_written_shares() {
  constexpr std::size_t kFew = 8;
  if (moved_.size() <= kFew)
    return std::any_of(moved_.begin(), moved_.end(), [this](std::size_t i) {
      for (std::size_t j = 0; j < inputs_.size(); ++j)
        if (i != j && (inputs_[i].written || inputs_[j].written) &&
            inputs_[i].range.overlaps(inputs_[j].range))
          return true;
      return false;
    });
  std::vector<const Input *> sorted;
  for (const Input &input : inputs_)
    if (input.kind == Kind::tensor)
      sorted.push_back(&input);
  std::sort(sorted.begin(), sorted.end(),
            [](const Input *a, const Input *b) { return a->range.begin < b->range.begin; });
  std::uintptr_t end = 0, end_of_written = 0; // of those that begin before
  for (const Input *input : sorted) {
    if (input->range.begin == input->range.end)
      continue;
    if (input->range.begin < (input->written ? end : end_of_written))
      return true;
    end = std::max(end, input->range.end);
    if (input->written)
      end_of_written = std::max(end_of_written, input->range.end);
  }
  return false;
}

namespace {

/// In line: a call of memcmp() takes longer than two sizes.
[[gnu::always_inline]] inline bool are_same(c10::IntArrayRef now,
                                            const std::vector<std::int64_t> &then) {
  if (now.size() != then.size())
    return false;
  for (std::size_t d = 0; d < then.size(); ++d)
    if (now[d] != then[d])
      return false;
  return true;
}

} // namespace

[[gnu::noinline, gnu::flatten]] bool Guards::holds(const Input &then, const c10::TensorImpl &t) {
  if (t.key_set() != then.keys || t.dtype() != c10::scalarTypeToTypeMeta(then.dtype) ||
      !t.has_storage() || !are_same(t.sizes(), then.sizes) || !are_same(t.strides(), then.strides))
    return false;
  if (t.autograd_meta() ? t.requires_grad() != then.requires_grad || has_tangent(t)
                        : then.requires_grad)
    return false;
  const std::uintptr_t at = address_of(t);
  return (at & then.unaligned) == 0 && (at != 0 || t.numel() == 0); // else its storage was freed
}

bool Guards::hold(c10::ArrayRef<c10::IValue> inputs) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Input &then = inputs_[i];
    if (then.kind == Kind::tensor) {
      if (!inputs[i].isTensor() || !holds(then, *inputs[i].toTensor().unsafeGetTensorImpl()))
        return false;
    } else if (kind_of(inputs[i]) != then.kind ||
               (then.kind == Kind::none && !inputs[i].isNone())) {
      return false;
    }
  }
  return (!needs_ieee_products_ || are_products_ieee()) && (!writes_ || are_apart(inputs));
}

} // namespace tracehost::tape
