#include "signature/value_guard.h"

#include "shapes/fake_tensor.h"

#include "signature/signature.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isnan.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace tracehost {
namespace {

bool has_nan(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

std::string bytes_of(const at::Tensor &t) {
  const at::AutoDispatchBelowADInplaceOrView no_grad;
  at::Tensor plain = t.resolve_conj().resolve_neg().to(at::kCPU).contiguous();
  if (has_nan(plain.scalar_type()))
    plain = plain.masked_fill(at::isnan(plain), std::numeric_limits<double>::quiet_NaN());
  return {static_cast<const char *>(plain.const_data_ptr()), plain.nbytes()};
}

std::string element_text(const c10::Scalar &element) {
  if (element.isBoolean())
    return element.toBool() ? "True" : "False";
  if (element.isFloatingPoint())
    return text(Signature(), {.kind = Kind::real, .payload = {.real = element.toDouble()}});
  if (element.isComplex()) {
    const auto z = element.toComplexDouble();
    return fmt::format("({}{:+}j)", z.real(), z.imag());
  }
  return std::to_string(element.toLong());
}

} // namespace

bool can_be_guarded(const at::Tensor &t) {
  return t.numel() <= kMostGuarded && t.layout() == at::kStrided && !t.is_quantized() &&
         !shapes::is_fake_tensor(t) && !t.is_meta() && !t.is_nested() &&
         !t.key_set().has(c10::DispatchKey::Python);
}

ValueGuard guard_of(std::uint32_t input, const at::Tensor &t) {
  return {input, t.scalar_type(), t.dim() == 0, bytes_of(t), {}};
}

bool holds(const ValueGuard &guard, const at::Tensor &t) {
  const bool plain = t.is_cpu() && t.is_contiguous() && !t.is_conj() && !t.is_neg();
  if (plain && t.nbytes() == guard.bytes.size()) {
    if (guard.bytes.empty() ||
        std::memcmp(t.const_data_ptr(), guard.bytes.data(), guard.bytes.size()) == 0)
      return true;
    if (!has_nan(guard.dtype))
      return false;
  }
  return can_be_guarded(t) && bytes_of(t) == guard.bytes;
}

std::string text(const ValueGuard &guard) {
  if (guard.bytes.empty())
    return "not known";
  const at::AutoDispatchBelowADInplaceOrView no_grad;
  const auto count = static_cast<std::int64_t>(guard.bytes.size() / c10::elementSize(guard.dtype));
  const at::Tensor values =
      at::from_blob(const_cast<char *>(guard.bytes.data()), {count}, // NOLINT: it is only read
                    at::TensorOptions().dtype(guard.dtype));
  std::string result;
  constexpr std::int64_t kShown = 8;
  for (std::int64_t i = 0; i < std::min(count, kShown); ++i)
    result += (i ? ", " : "") + element_text(values[i].item());
  if (guard.scalar)
    return result;
  return fmt::format("[{}{}]", result, count > kShown ? ", ..." : "");
}

} // namespace tracehost
