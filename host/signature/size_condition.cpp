#include "signature/size_condition.h"

#include "signature/signature.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>

namespace tracehost {
namespace {

using Op = SizeTerm::Op;

using Result = std::optional<std::int64_t>;

Result floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min()))
    return std::nullopt;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/// Null if the result can't be computed in 64 bits.
Result apply(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
  case Op::add:
    return __builtin_add_overflow(a, b, &result) ? Result() : result;
  case Op::subtract:
    return __builtin_sub_overflow(a, b, &result) ? Result() : result;
  case Op::multiply:
    return __builtin_mul_overflow(a, b, &result) ? Result() : result;
  case Op::floor_divide:
    return floor_divide(a, b);
  case Op::remainder:
    if (b == -1)
      return 0;
    if (const Result quotient = floor_divide(a, b))
      return a - b * *quotient;
    return std::nullopt;
  case Op::equal:
    return a == b;
  case Op::not_equal:
    return a != b;
  case Op::less:
    return a < b;
  case Op::less_equal:
    return a <= b;
  case Op::logical_and:
    return a && b;
  case Op::minimum:
    return a < b ? a : b;
  case Op::maximum:
    return a < b ? b : a;
  default:
    return a || b;
  }
}

constexpr std::size_t kDeepest = 32;

/// An operator as Python writes it.
struct Symbol {
  const char *text;
  int precedence;                 ///< how tight it binds; a size or a number binds tightest
  const char *opposite = nullptr; ///< of a comparison, for one that was false
};

/// By Op.
constexpr std::array<Symbol, 16> symbols = {{
    {"", 6},
    {"", 6},
    {" + ", 4},
    {" - ", 4},
    {" * ", 5},
    {" // ", 5},
    {" % ", 5},
    {" == ", 3, " != "},
    {" != ", 3, " == "},
    {" < ", 3, " >= "},
    {" <= ", 3, " > "},
    {"not ", 2},
    {" and ", 1},
    {" or ", 0},
    {"min", 6},
    {"max", 6},
}};

const Symbol &symbol(Op op) { return symbols[static_cast<std::size_t>(op)]; }

using Part = std::pair<std::string, int>; ///< a text and how tight its operator binds

std::string bracketed(const Part &part, int at_least) {
  return part.second < at_least ? "(" + part.first + ")" : part.first;
}

} // namespace

std::optional<std::int64_t> evaluate(const SizeExpression &expression, const SizeSource &sizes) {
  std::array<std::int64_t, kDeepest> stack;
  std::size_t top = 0;
  for (const SizeTerm &term : expression) {
    if (term.op == Op::constant || term.op == Op::size) {
      if (top == kDeepest)
        return std::nullopt;
      stack[top] = term.op == Op::constant ? term.value : sizes.size(term.slot, term.dimension);
      if (term.op == Op::size && stack[top] == kAnySize)
        return std::nullopt;
      ++top;
    } else if (term.op == Op::logical_not) {
      stack[top - 1] = !stack[top - 1];
    } else {
      const std::int64_t right = stack[--top];
      const Result made = apply(term.op, stack[top - 1], right);
      if (!made)
        return std::nullopt;
      stack[top - 1] = *made;
    }
  }
  return stack[0];
}

bool holds(const SizeCondition &condition, const SizeSource &sizes) {
  const auto value = evaluate(condition.expression, sizes);
  return value && (*value != 0) == condition.expected;
}

std::string text(const SizeCondition &condition, const Signature &signature) {
  std::vector<Part> stack;
  for (const SizeTerm &term : condition.expression) {
    const auto &[sign, binds, opposite] = symbol(term.op);
    const bool last = &term == &condition.expression.back();
    if (term.op == Op::constant) {
      stack.emplace_back(std::to_string(term.value), binds);
    } else if (term.op == Op::size) {
      const std::string input = signature.input_path(static_cast<std::uint32_t>(term.slot));
      stack.emplace_back(fmt::format("{}.shape[{}]", input, term.dimension), binds);
    } else if (term.op == Op::logical_not) {
      stack.back() = {"not " + bracketed(stack.back(), binds), binds};
    } else {
      const Part right = std::move(stack.back());
      stack.pop_back();
      if (term.op == Op::minimum || term.op == Op::maximum) {
        stack.back() = {fmt::format("{}({}, {})", sign, stack.back().first, right.first), binds};
        continue;
      }
      const bool turned = last && !condition.expected && opposite;
      stack.back() = {bracketed(stack.back(), binds) + (turned ? opposite : sign) +
                          bracketed(right, binds + 1),
                      binds};
      if (turned)
        return stack.front().first;
    }
  }
  const Part &whole = stack.front();
  return condition.expected ? whole.first
                            : "not " + bracketed(whole, symbol(Op::logical_not).precedence + 1);
}

} // namespace tracehost
