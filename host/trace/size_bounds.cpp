#include "trace/exact_arithmetic.h"
#include "trace/size.h"

#include <algorithm>
#include <numeric>
#include <utility>

/// What is known of a Size for all sizes of inputs: bounds, and comparisons that they decide.

namespace tracehost::trace {

namespace {

constexpr int kSubstitutions = 3; ///< of minima and maxima

} // namespace

Size::Bounds Size::bounds_of(Op op, const Size &a, const Size &b) {
  Bounds x = a.bounds(), y = b.bounds();
  for (const auto &[size, its] : {std::pair(&a, &x), std::pair(&b, &y)})
    if (its->least.value_or(-1) < 0 && size->is_at_least(0))
      its->least = 0;
  switch (op) {
  case Op::floor_divide:
    if (y.least.value_or(0) < 1)
      return {};
    if (const auto divisor = b.constant())
      return {x.least ? std::optional(quotient_down(*x.least, *divisor)) : std::nullopt,
              x.most ? std::optional(quotient_down(*x.most, *divisor)) : std::nullopt};
    return x.least.value_or(-1) >= 0 ? Bounds{0, x.most} : Bounds{};
  case Op::remainder:
    if (y.least.value_or(0) < 1)
      return {};
    return {0, y.most ? std::optional(*y.most - 1) : std::nullopt};
  case Op::minimum:
    return {x.least && y.least ? std::optional(std::min(*x.least, *y.least)) : std::nullopt,
            x.most && y.most ? std::optional(std::min(*x.most, *y.most))
            : x.most         ? x.most
                             : y.most};
  default:
    return {0, 1};
  }
}

Size::Bounds Size::bounds(const Monomial &monomial) {
  if (monomial.size() == 1)
    return monomial[0]->bounds;
  Bounds result{1, 1};
  for (const Factor &factor : monomial) {
    const Bounds &one = factor->bounds;
    if (one.least.value_or(-1) < 0)
      return {};
    result.least = result.least ? times(*result.least, *one.least) : std::nullopt;
    result.most = result.most && one.most ? times(*result.most, *one.most) : std::nullopt;
  }
  if (!result.least)
    result.least = 0;
  return result;
}

Size::Bounds Size::bounds() const {
  Bounds result{0, 0};
  const auto add = [](std::optional<std::int64_t> &to, const std::optional<std::int64_t> &bound,
                      std::int64_t factor) {
    const auto term = bound ? times(*bound, factor) : std::nullopt;
    to = to && term ? plus(*to, *term) : std::nullopt;
  };
  for (const auto &[monomial, coefficient] : terms_) {
    const Bounds one = bounds(monomial);
    add(result.least, coefficient > 0 ? one.least : one.most, coefficient);
    add(result.most, coefficient > 0 ? one.most : one.least, coefficient);
  }
  return result;
}

bool Size::is_at_least(std::int64_t n) const { return known_ && is_at_least(n, kSubstitutions); }

/// A minimum is at most each of its two, and it is one of them. If it is taken off, one of the two
/// is enough; if it is added, both are needed.
bool Size::is_at_least(std::int64_t n, int depth) const {
  if (const Bounds own = bounds(); own.least && *own.least >= n)
    return true;
  if (depth == 0)
    return false;
  for (const auto &[monomial, coefficient] : terms_) {
    if (monomial.size() != 1 || monomial[0]->op != Op::minimum)
      continue;
    const bool one_is_enough = coefficient < 0;
    Size others = *this;
    others.terms_.erase(monomial);
    const auto holds_with = [&](const Size &side) {
      const Size replaced = sum(others, side * coefficient, 1);
      return replaced.known_ && replaced.is_at_least(n, depth - 1);
    };
    const bool left = holds_with(monomial[0]->left);
    if (left == one_is_enough ? left : holds_with(monomial[0]->right))
      return true;
  }
  return false;
}

std::optional<bool> Size::decided(Op op, const Size &a, const Size &b) {
  const Size up = sum(b, a, -1), down = sum(a, b, -1);
  if (!up.known_ || !down.known_)
    return std::nullopt;
  if (op == Op::less || op == Op::less_equal) {
    const std::int64_t least = op == Op::less ? 1 : 0;
    if (up.is_at_least(least))
      return true;
    if (down.is_at_least(1 - least))
      return false;
    return std::nullopt;
  }
  const bool equal = op == Op::equal;
  if (up.terms_.empty())
    return equal;
  if (up.is_at_least(1) || down.is_at_least(1))
    return !equal;
  std::int64_t divisor = 0;
  for (const auto &[monomial, coefficient] : up.terms_)
    if (!monomial.empty())
      divisor = std::gcd(divisor, coefficient);
  if (divisor && up.constant_part() % divisor)
    return !equal;
  return std::nullopt;
}

void Size::add_bounds(std::vector<SizeExpression> &to) const {
  for (const auto &[monomial, coefficient] : terms_)
    for (const Factor &factor : monomial) {
      factor->left.add_bounds(to);
      factor->right.add_bounds(to);
      if (factor->op != Op::minimum)
        continue;
      SizeExpression comparison = factor->left.expression();
      const SizeExpression right = factor->right.expression();
      comparison.insert(comparison.end(), right.begin(), right.end());
      comparison.push_back({Op::less_equal, -1, -1, 0});
      if (std::find(to.begin(), to.end(), comparison) == to.end())
        to.push_back(std::move(comparison));
    }
}

} // namespace tracehost::trace
