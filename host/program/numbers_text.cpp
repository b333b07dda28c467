#include "program/number_families.h"

#include <torch/csrc/jit/runtime/custom_operator.h>

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdio>

/// The text of a number, as Python's format() gives it: in what a graph raises.

namespace tracehost {
namespace {

/// What a format specification says: `>8.3f`.
struct Spec {
  std::string fill = " ";
  char align = 0; ///< 0: none is given
  char sign = '-';
  bool alternate = false;
  int width = 0, precision = -1;
  char type = 0;
};

int digits(std::string_view &rest) {
  int found = 0;
  while (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0])) && found < 1000) {
    found = 10 * found + (rest[0] - '0');
    rest.remove_prefix(1);
  }
  return found;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

/// Nullopt: it says what is not done here (thousands, a fill beyond ASCII), or is wrong.
std::optional<Spec> parse(std::string_view rest) {
  Spec spec;
  const auto take = [&rest] {
    const char c = rest[0];
    rest.remove_prefix(1);
    return c;
  };
  const bool fills =
      rest.size() > 1 && is_align(rest[1]) && static_cast<unsigned char>(rest[0]) < 0x80;
  if (fills)
    spec.fill = take();
  if (!rest.empty() && is_align(rest[0]))
    spec.align = take();
  if (!rest.empty() && (rest[0] == '+' || rest[0] == '-' || rest[0] == ' '))
    spec.sign = take();
  if (!rest.empty() && rest[0] == '#')
    spec.alternate = take();
  if (!fills && !rest.empty() && rest[0] == '0') {
    spec.fill = take();
    spec.align = spec.align ? spec.align : '=';
  }
  spec.width = digits(rest);
  if (!rest.empty() && rest[0] == '.') {
    take();
    if (rest.empty() || !std::isdigit(static_cast<unsigned char>(rest[0])))
      return std::nullopt;
    spec.precision = digits(rest);
  }
  if (!rest.empty())
    spec.type = take();
  constexpr std::string_view types("\0deEfFgG%xXob", 13);
  const bool known = types.find(spec.type) != types.npos;
  // As Python's, a float without a type and with a precision is like no other.
  if (!rest.empty() || !known || spec.width >= 1000 || spec.precision >= 100 ||
      (spec.type == 0 && spec.precision >= 0) || spec.alternate)
    return std::nullopt;
  return spec;
}

bool is_of_ints(char type) {
  return std::string_view("dxXob").find(type) != std::string_view::npos;
}

std::string of_integer(std::int64_t value, char type) {
  const std::string format = {'{', ':', type ? type : 'd', '}'};
  return fmt::format(fmt::runtime(format), numbers::magnitude(value));
}

/// Of a magnitude, without a type as repr() writes it.
std::string of_real(double value, const Spec &spec) {
  if (spec.type == 0 || spec.type == 'd') {
    std::string text = fmt::format("{}", value);
    if (text.find_first_not_of("0123456789") == std::string::npos)
      text += ".0";
    return text;
  }
  const bool percent = spec.type == '%';
  const char format[] = {'%', '.', '*', percent ? 'f' : spec.type, 0};
  std::string text(512, 0);
  const auto written =
      std::snprintf(text.data(), text.size(), format, spec.precision < 0 ? 6 : spec.precision,
                    percent ? value * 100 : value);
  text.resize(static_cast<std::size_t>(written));
  return percent ? text + '%' : text;
}

std::string padded(bool negative, const std::string &magnitude, const Spec &spec) {
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const auto length = static_cast<int>(sign.size() + magnitude.size());
  const int missing = spec.width > length ? spec.width - length : 0;
  const int before = spec.align == '<' ? 0 : spec.align == '^' ? missing / 2 : missing;
  const auto fill = [&](int count) {
    return std::string(static_cast<std::size_t>(count), spec.fill[0]);
  };
  if (spec.align == '=')
    return sign + fill(missing) + magnitude;
  return fill(before) + sign + magnitude + fill(missing - before);
}

std::string text(const c10::IValue &number, const Spec &spec) {
  if (number.isDouble()) {
    const double value = number.toDouble();
    return padded(std::signbit(value) && !std::isnan(value), of_real(std::fabs(value), spec), spec);
  }
  const std::int64_t value = number.isBool() ? number.toBool() : number.toInt();
  if (spec.type == 0 || is_of_ints(spec.type))
    return padded(value < 0, of_integer(value, spec.type), spec);
  return padded(value < 0, of_real(std::fabs(static_cast<double>(value)), spec), spec);
}

/// Python's own error for such a number comes at the trace of a call that has one.
void text_op(torch::jit::Stack &stack) {
  const std::string spec = torch::jit::pop(stack).toStringRef();
  const c10::IValue number = torch::jit::pop(stack);
  stack.emplace_back(text_of_number(number, spec).value_or("?"));
}

const torch::jit::RegisterOperators
    registered({torch::jit::Operator(std::string(kTextOp) + "(Scalar n, str spec) -> str", &text_op,
                                     c10::AliasAnalysisKind::PURE_FUNCTION)});

} // namespace

std::optional<std::string> text_of_number(const c10::IValue &number, std::string_view spec) {
  if (number.isBool() && spec.empty())
    return number.toBool() ? "True" : "False";
  const auto parsed = parse(spec);
  const bool right = parsed && !(number.isDouble() && is_of_ints(parsed->type)) &&
                     !(!number.isDouble() && is_of_ints(parsed->type) && parsed->precision >= 0);
  return right ? std::optional(text(number, *parsed)) : std::nullopt;
}

} // namespace tracehost
