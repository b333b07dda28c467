#include "signature/tensor_spec.h"

#include <c10/util/hash.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tracehost {
namespace {

using Shape = TensorSpec::Shape;

/// Types of which a machine has one device: an index says nothing.
bool is_single(c10::Device device) { return device.is_cpu() || device.is_meta(); }

std::optional<c10::Device> canonical(const std::optional<c10::Device> &device) {
  return device && is_single(*device) ? c10::Device(device->type()) : device;
}

bool contains(const std::optional<c10::Device> &general,
              const std::optional<c10::Device> &specific) {
  if (!general)
    return true;
  return specific && general->type() == specific->type() &&
         (!general->has_index() || is_single(*general) || general->index() == specific->index());
}

bool contains(const std::optional<Shape> &general, const std::optional<Shape> &specific) {
  return !general || (specific && std::ranges::equal(*general, *specific, [](auto size, auto of) {
                        return size == kAnySize || size == of;
                      }));
}

bool overlap(const std::optional<Shape> &a, const std::optional<Shape> &b) {
  return !a || !b || std::ranges::equal(*a, *b, [](auto x, auto y) {
    return x == y || x == kAnySize || y == kAnySize;
  });
}

std::optional<Shape> join(std::optional<Shape> a, const std::optional<Shape> &b) {
  if (!a || !b || a->size() != b->size())
    return std::nullopt;
  for (std::size_t i = 0; i < a->size(); ++i)
    if ((*a)[i] != (*b)[i])
      (*a)[i] = kAnySize;
  return a;
}

std::optional<c10::Device> join(const std::optional<c10::Device> &a,
                                const std::optional<c10::Device> &b) {
  if (!a || !b || a->type() != b->type())
    return std::nullopt;
  return contains(a, b) ? a : contains(b, a) ? b : c10::Device(a->type());
}

/// As Python writes a str.
std::string quoted(const std::string &text) {
  const char mark = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string result(1, mark);
  for (const char c : text) {
    if (c == mark || c == '\\')
      result += '\\';
    if (c == '\n')
      result += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else
      result += c;
  }
  return result + mark;
}

} // namespace

TensorSpec TensorSpec::of(const TensorMeta &meta, std::string name) {
  return {Shape(meta.sizes.begin(), meta.sizes.end()), meta.dtype, meta.device, std::move(name)};
}

TensorSpec TensorSpec::of(const at::Tensor &tensor, std::string name) {
  // The impl's own: tensor.sizes() of a traced tensor must not be noticed by the tracer.
  return {tensor.unsafeGetTensorImpl()->sizes().vec(), tensor.scalar_type(), tensor.device(),
          std::move(name)};
}

bool TensorSpec::operator==(const TensorSpec &other) const {
  return shape == other.shape && dtype == other.dtype &&
         canonical(device) == canonical(other.device) && name == other.name;
}

std::string TensorSpec::text() const {
  std::string result = "TensorSpec(shape=None";
  if (shape)
    result =
        fmt::format("TensorSpec(shape=({}{})", sizes_text(*shape), shape->size() == 1 ? "," : "");
  result += ", dtype=torch." + dtype_name(dtype);
  if (device)
    result += ", device=" + quoted(device->str());
  return result + ", name=" + (name.empty() ? "None" : quoted(name)) + ")";
}

bool is_compatible_with(const TensorSpec &a, const TensorSpec &b) {
  return a.dtype == b.dtype && overlap(a.shape, b.shape) &&
         (contains(a.device, b.device) || contains(b.device, a.device));
}

bool is_compatible_with(const TensorSpec &spec, const at::Tensor &tensor) {
  return is_compatible_with(spec, TensorSpec::of(tensor));
}

bool is_subtype_of(const TensorSpec &a, const TensorSpec &b) {
  return a.dtype == b.dtype && contains(b.shape, a.shape) && contains(b.device, a.device) &&
         (a.name.empty() || a.name == b.name);
}

std::optional<TensorSpec> most_specific_common_supertype(const std::vector<TensorSpec> &specs) {
  TensorSpec result = specs.front();
  bool names_differ = false;
  for (const TensorSpec &spec : specs) {
    if (spec.dtype != result.dtype)
      return std::nullopt;
    result.shape = join(std::move(result.shape), spec.shape);
    result.device = join(result.device, spec.device);
    if (result.name.empty())
      result.name = spec.name;
    names_differ |= !spec.name.empty() && spec.name != result.name;
  }
  if (names_differ)
    result.name.clear();
  return result;
}

TensorSpec most_specific_compatible_type(const TensorSpec &a, const TensorSpec &b) {
  const auto found = most_specific_common_supertype({a, b});
  if (!found)
    throw std::invalid_argument(
        fmt::format("No TensorSpec is compatible with both {} and {}", a.text(), b.text()));
  return *found;
}

} // namespace tracehost

std::size_t
std::hash<tracehost::TensorSpec>::operator()(const tracehost::TensorSpec &spec) const noexcept {
  std::size_t result = c10::get_hash(spec.dtype, spec.shape.has_value());
  if (spec.shape)
    result = c10::hash_combine(result, c10::get_hash(*spec.shape));
  // The device only by its type: cpu and cpu:0 are equal.
  return c10::hash_combine(result, spec.device ? static_cast<std::size_t>(spec.device->type()) + 1
                                               : std::size_t{0});
}
