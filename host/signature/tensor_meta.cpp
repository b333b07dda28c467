#include "signature/tensor_meta.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tracehost {

TensorMeta TensorMeta::of(const at::Tensor &t, const void *type, const char *type_name) {
  TensorMeta meta;
  meta.keys = t.key_set();
  meta.dtype = t.scalar_type();
  meta.device = t.device();
  meta.requires_grad = t.requires_grad();
  meta.is_leaf = t.is_leaf();
  meta.type = type;
  meta.type_name = type_name;
  meta.sizes.assign(t.sizes().begin(), t.sizes().end());
  if (t.layout() == at::kStrided) // the others have none
    meta.strides.assign(t.strides().begin(), t.strides().end());
  meta.contiguous = t.layout() != at::kStrided || t.is_contiguous();
  return meta;
}

bool TensorMeta::takes(c10::IntArrayRef given) const {
  if (given.size() != sizes.size())
    return false;
  for (std::size_t i = 0; i < given.size(); ++i)
    if (sizes[i] != given[i] && sizes[i] != kAnySize)
      return false;
  return true;
}

bool TensorMeta::operator==(const TensorMeta &other) const {
  return keys == other.keys && dtype == other.dtype && device == other.device &&
         requires_grad == other.requires_grad && is_leaf == other.is_leaf && type == other.type &&
         sizes == other.sizes && strides == other.strides;
}

std::string sizes_text(c10::IntArrayRef sizes) {
  std::vector<std::string> texts;
  for (const std::int64_t size : sizes)
    texts.push_back(size == kAnySize ? "None" : std::to_string(size));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string TensorMeta::text() const {
  std::string result = fmt::format("{}[{}]", dtype_name(dtype), sizes_text(sizes));
  if (std::string_view(type_name) != "Tensor")
    result = fmt::format("{} {}", type_name, result);
  if (requires_grad)
    result += ", requires_grad";
  if (!device.is_cpu())
    result += ", " + device.str();
  const std::string name = layout();
  const std::size_t comma = std::min(name.find(", "), name.size());
  if (!name.starts_with("strided"))
    result += ", " + name.substr(0, comma);
  if (comma < name.size()) // in brackets: behind a comma it would be taken for an argument
    result += " (" + name.substr(comma + 2) + ")";
  return result;
}

std::string TensorMeta::layout() const {
  std::string result = keys.has_any(c10::sparse_ks)       ? "sparse"
                       : keys.has_any(c10::sparse_csr_ks) ? "sparse_csr"
                       : keys.has_any(c10::mkldnn_ks)     ? "mkldnn"
                       : keys.has_all(c10::DispatchKeySet(c10::DispatchKey::NestedTensor))
                           ? "nested"
                           : "strided";
  if (keys.has(c10::DispatchKey::Conjugate))
    result += ", conj";
  if (keys.has(c10::DispatchKey::Negative))
    result += ", neg";
  if (!keys.empty() && !keys.has_any(c10::inplace_or_view_ks))
    result += ", inference";
  return result;
}

std::string dtype_name(at::ScalarType dtype) {
  if (dtype == at::ScalarType::Undefined)
    return "undefined";
  return std::string(c10::getDtypeNames(dtype).first);
}

} // namespace tracehost
