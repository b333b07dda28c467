#include "runtime/signature_text.h"

#include "signature/tensor_meta.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace tracehost::runtime {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 12> kShort{{
    {"f16", at::kHalf},
    {"bf16", at::kBFloat16},
    {"f32", at::kFloat},
    {"f64", at::kDouble},
    {"i8", at::kChar},
    {"i16", at::kShort},
    {"i32", at::kInt},
    {"i64", at::kLong},
    {"u8", at::kByte},
    {"bool", at::kBool},
    {"c64", at::kComplexFloat},
    {"c128", at::kComplexDouble},
}};

std::optional<at::ScalarType> dtype_of(std::string_view name) {
  for (const auto &[text, dtype] : kShort)
    if (name == text || name == dtype_name(dtype))
      return dtype;
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// At commas outside of brackets and quotes.
std::vector<std::string_view> parts(std::string_view text) {
  std::vector<std::string_view> result;
  std::size_t start = 0;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (quote)
      quote = c == quote ? 0 : quote;
    else if (c == '\'' || c == '"')
      quote = c;
    else if (c == '[' || c == ']')
      depth += c == '[' ? 1 : -1;
    if (i == text.size() || (c == ',' && depth == 0 && !quote)) {
      result.push_back(trimmed(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  return result;
}

template <class T> std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

[[noreturn]] void fail(std::string_view part, std::string_view why) {
  throw Error(fmt::format("signature '{}': {}", part, why));
}

Value tensor(std::string_view part, std::size_t open) {
  const auto close = part.find(']', open);
  const auto dtype = dtype_of(trimmed(part.substr(0, open)));
  if (!dtype)
    fail(part, "no such dtype; write f32[8,128] or int64[]");
  if (close == std::string_view::npos)
    fail(part, "a ] is missing");
  at::TensorOptions options = at::TensorOptions().dtype(*dtype);
  if (const auto device = part.substr(close + 1); !device.empty()) {
    if (device.front() != '@')
      fail(part, "a device is written behind an @: f32[8]@cuda");
    options = options.device(at::Device(std::string(device.substr(1))));
  }
  std::vector<std::int64_t> sizes;
  const auto inner = trimmed(part.substr(open + 1, close - open - 1));
  if (!inner.empty())
    for (const auto size : parts(inner)) {
      const auto value = number<std::int64_t>(size);
      if (!value || *value < 0)
        fail(part, "each size must be a number here: a call has sizes");
      sizes.push_back(*value);
    }
  return at::zeros(sizes, options);
}

Value value(std::string_view part) {
  if (part.empty())
    fail(part, "an argument is missing");
  if (part == "None")
    return {};
  if (part == "True" || part == "False")
    return part == "True";
  if (part.front() == '\'' || part.front() == '"') {
    if (part.size() < 2 || part.back() != part.front())
      fail(part, "a quote is missing");
    return std::string(part.substr(1, part.size() - 2));
  }
  if (const auto open = part.find('['); open != std::string_view::npos)
    return tensor(part, open);
  if (const auto integer = number<std::int64_t>(part))
    return *integer;
  if (const auto real = number<double>(part))
    return *real;
  fail(part, "neither a tensor (f32[8,128]) nor a number, True, False, None or 'text'");
}

/// Where `name=` ends; 0: there is none.
std::size_t keyword(std::string_view part) {
  std::size_t i = 0;
  while (i < part.size() && (std::isalnum(static_cast<unsigned char>(part[i])) || part[i] == '_'))
    ++i;
  return i > 0 && i < part.size() && part[i] == '=' ? i + 1 : 0;
}

} // namespace

std::vector<Argument> zeros(const std::string &signature) {
  std::vector<Argument> result;
  if (trimmed(signature).empty())
    return result;
  for (const std::string_view part : parts(signature)) {
    const std::size_t name = keyword(part);
    Value given = value(trimmed(part.substr(name)));
    if (name)
      result.emplace_back(std::string(part.substr(0, name - 1)), std::move(given));
    else
      result.emplace_back(std::move(given));
  }
  return result;
}

} // namespace tracehost::runtime
