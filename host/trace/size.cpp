#include "trace/size.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tracehost::trace {

namespace {

constexpr unsigned kHeaviest = 160; ///< terms of an expression
constexpr int kSubstitutions = 3;

std::int64_t quotient_down(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

template <class F> std::optional<std::int64_t> checked(F overflows) {
  std::int64_t result = 0;
  return overflows(&result) ? std::nullopt : std::optional(result);
}

std::optional<std::int64_t> times(std::int64_t a, std::int64_t b) {
  return checked([=](std::int64_t *r) { return __builtin_mul_overflow(a, b, r); });
}

std::optional<std::int64_t> plus(std::int64_t a, std::int64_t b) {
  return checked([=](std::int64_t *r) { return __builtin_add_overflow(a, b, r); });
}

} // namespace

/// A size of an input, or an operation on two Sizes.
struct Size::Atom {
  Op op;
  std::int32_t slot, dimension; ///< of a size
  Size left, right;             ///< of an operation
  Bounds bounds;
  unsigned weight;
};

// ---- The order of terms, which makes equal Sizes equal maps

int Size::order(const Atom &a, const Atom &b) {
  if (&a == &b)
    return 0;
  if (a.op != b.op)
    return a.op < b.op ? -1 : 1;
  if (a.op == Op::size) {
    const auto x = std::pair(a.slot, a.dimension), y = std::pair(b.slot, b.dimension);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const int left = order(a.left.terms_, b.left.terms_);
  return left ? left : order(a.right.terms_, b.right.terms_);
}

bool Size::Before::operator()(const Monomial &a, const Monomial &b) const {
  if (a.size() != b.size())
    return a.size() < b.size();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const int found = order(*a[i], *b[i]))
      return found < 0;
  return false;
}

int Size::order(const Terms &a, const Terms &b) {
  if (a.size() != b.size())
    return a.size() < b.size() ? -1 : 1;
  const Before before;
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    if (before(x->first, y->first))
      return -1;
    if (before(y->first, x->first))
      return 1;
    if (x->second != y->second)
      return x->second < y->second ? -1 : 1;
  }
  return 0;
}

// ---- Polynomials

Size::Size(std::int64_t n) : known_(true) { add_term({}, n); }

Size Size::input(std::int32_t slot, std::int32_t dimension) {
  Size result(0);
  result.add_term({std::make_shared<Atom>(Atom{Op::size, slot, dimension, {}, {}, {0, {}}, 1})}, 1);
  return result;
}

/// False if the sum overflows.
bool Size::add_term(const Monomial &monomial, std::int64_t coefficient) {
  const auto found = terms_.try_emplace(monomial, 0).first;
  const auto sum = plus(found->second, coefficient);
  if (sum && *sum)
    found->second = *sum;
  else
    terms_.erase(found);
  return sum.has_value();
}

std::optional<std::int64_t> Size::constant() const {
  if (!known_ || terms_.size() > 1 || (terms_.size() == 1 && !terms_.begin()->first.empty()))
    return std::nullopt;
  return constant_part();
}

std::int64_t Size::constant_part() const {
  const auto found = terms_.find({});
  return found == terms_.end() ? 0 : found->second;
}

bool Size::operator==(const Size &other) const {
  return known_ && other.known_ && order(terms_, other.terms_) == 0;
}

unsigned Size::weight() const {
  unsigned result = 0;
  for (const auto &[monomial, coefficient] : terms_) {
    result += 2;
    for (const Factor &factor : monomial)
      result += factor->weight + 1;
  }
  return result;
}

Size Size::with(Need need) const {
  Size result = *this;
  if (std::find(needs_.begin(), needs_.end(), need) == needs_.end())
    result.needs_.push_back(std::move(need));
  return result;
}

Size Size::without_needs() const {
  Size result = *this;
  result.needs_.clear();
  return result;
}

Size Size::made(Op op, const Size &a, const Size &b) {
  if (!a.known_ || !b.known_)
    return {};
  Size result = op == Op::add           ? sum(a, b, 1)
                : op == Op::subtract    ? sum(a, b, -1)
                : op == Op::multiply    ? product(a, b)
                : op == Op::floor_divide ? divided(a, b)
                : op == Op::remainder   ? rest(a, b)
                : op == Op::minimum || op == Op::maximum ? bound(op, a, b)
                : op >= Op::equal && op <= Op::less_equal ? compared(op, a, b)
                                                          : joined(op, a, b);
  if (!result.known_ || result.weight() > kHeaviest)
    return {};
  result.needs_ = a.needs_;
  for (const Need &need : b.needs_)
    if (std::find(a.needs_.begin(), a.needs_.end(), need) == a.needs_.end())
      result.needs_.push_back(need);
  return result;
}

Size Size::sum(const Size &a, const Size &b, std::int64_t factor) {
  Size result = a;
  for (const auto &[monomial, coefficient] : b.terms_) {
    const auto term = times(coefficient, factor);
    if (!term || !result.add_term(monomial, *term))
      return {};
  }
  return result;
}

Size Size::product(const Size &a, const Size &b) {
  if (a.terms_.size() * b.terms_.size() > kHeaviest)
    return {};
  Size result(0);
  for (const auto &[x, m] : a.terms_)
    for (const auto &[y, n] : b.terms_) {
      Monomial z = x;
      z.insert(z.end(), y.begin(), y.end());
      std::sort(z.begin(), z.end(),
                [](const Factor &f, const Factor &g) { return order(*f, *g) < 0; });
      const auto coefficient = times(m, n);
      if (!coefficient || !result.add_term(z, *coefficient))
        return {};
    }
  return result;
}

// ---- Operations that make atoms

Size Size::atom(Op op, const Size &a, const Size &b) {
  const Size left = a.without_needs(), right = b.without_needs();
  Size result(0);
  result.add_term({std::make_shared<Atom>(Atom{op, -1, -1, left, right, bounds_of(op, left, right),
                                               1 + left.weight() + right.weight()})},
                  1);
  return result;
}

/// By a constant above 0, what the divisor divides comes out of the division.
Size Size::divided(const Size &a, const Size &b) {
  const auto constant = b.constant();
  if (!constant)
    return atom(Op::floor_divide, a, b);
  if (*constant == 0)
    return {};
  if (*constant < 0)
    return atom(Op::floor_divide, a, b);
  std::int64_t divisor = *constant;
  Size whole(0), rest(0);
  for (const auto &[monomial, coefficient] : a.terms_) {
    const std::int64_t quotient = quotient_down(coefficient, divisor);
    if (!whole.add_term(monomial, quotient) ||
        !rest.add_term(monomial, coefficient - quotient * divisor))
      return {};
  }
  std::int64_t common = divisor;
  for (const auto &[monomial, coefficient] : rest.terms_)
    if (!monomial.empty())
      common = std::gcd(common, coefficient);
  Size reduced(0);
  for (const auto &[monomial, coefficient] : rest.terms_)
    reduced.add_term(monomial, coefficient / common);
  divisor /= common;
  if (reduced.constant()) // below the divisor
    return whole;
  return sum(whole, divisor == 1 ? reduced : atom(Op::floor_divide, reduced, Size(divisor)), 1);
}

Size Size::rest(const Size &a, const Size &b) {
  const auto divisor = b.constant();
  if (!divisor || *divisor < 0)
    return atom(Op::remainder, a, b);
  if (*divisor == 0)
    return {};
  Size reduced(0);
  for (const auto &[monomial, coefficient] : a.terms_)
    reduced.add_term(monomial,
                     coefficient - quotient_down(coefficient, *divisor) * *divisor);
  return reduced.constant() ? reduced : atom(Op::remainder, reduced, b);
}

Size Size::bound(Op op, const Size &a, const Size &b) {
  if (decided(Op::less_equal, a, b) == true)
    return op == Op::minimum ? a : b;
  if (decided(Op::less_equal, b, a) == true)
    return op == Op::minimum ? b : a;
  const bool number_last = b.constant().has_value(); // as people write it
  return number_last || (!a.constant() && order(a.terms_, b.terms_) <= 0) ? atom(op, a, b)
                                                                          : atom(op, b, a);
}

Size Size::compared(Op op, const Size &a, const Size &b) {
  if (const auto fixed = decided(op, a, b))
    return *fixed;
  return atom(op, a, b);
}

/// not, and, or.
Size Size::joined(Op op, const Size &a, const Size &b) {
  const auto x = a.constant(), y = b.constant();
  if (op == Op::logical_not)
    return x ? Size(*x == 0) : atom(op, a, b);
  const bool absorbs = op == Op::logical_or;
  if ((x && (*x != 0) == absorbs) || (y && (*y != 0) == absorbs))
    return std::int64_t{absorbs};
  if (x && y)
    return std::int64_t{!absorbs};
  return atom(op, a, b);
}

Size exact_quotient(const Size &a, const Size &b) {
  if (!a.known_ || !b.known_ || b.constant())
    return floor_divide(a, b);
  constexpr int most_terms = 16;
  Size left = a.without_needs(), quotient(0);
  const auto &[lead, factor] = *b.terms_.rbegin();
  for (int i = 0; i < most_terms && !left.terms_.empty(); ++i) {
    const auto &[monomial, coefficient] = *left.terms_.rbegin();
    Size::Monomial rest;
    std::set_difference(
        monomial.begin(), monomial.end(), lead.begin(), lead.end(), std::back_inserter(rest),
        [](const auto &f, const auto &g) { return Size::order(*f, *g) < 0; });
    if (rest.size() + lead.size() != monomial.size() || coefficient % factor != 0)
      break;
    Size term(0);
    term.add_term(rest, coefficient / factor);
    quotient = quotient + term;
    left = left - term * b.without_needs();
    if (!left.known_)
      break;
  }
  if (!left.known_ || !left.terms_.empty())
    return floor_divide(a, b);
  for (const Size *of : {&a, &b})
    for (const Size::Need &need : of->needs_)
      quotient = quotient.with(need);
  return quotient;
}

// ---- What is known of values

Size::Bounds Size::bounds_of(Op op, const Size &a, const Size &b) {
  const Bounds x = a.bounds(), y = b.bounds();
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
  case Op::maximum:
    return {x.least && y.least ? std::optional(std::max(*x.least, *y.least))
            : x.least          ? x.least
                               : y.least,
            x.most && y.most ? std::optional(std::max(*x.most, *y.most)) : std::nullopt};
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

bool Size::is_at_least(std::int64_t n) const {
  return known_ && is_at_least(n, kSubstitutions);
}

/// A minimum that is taken off is at most each of its two, and a maximum is at least each of them: one
/// of them is enough. The other way round both are needed, as it is one of them.
bool Size::is_at_least(std::int64_t n, int depth) const {
  if (const Bounds own = bounds(); own.least && *own.least >= n)
    return true;
  if (depth == 0)
    return false;
  for (const auto &[monomial, coefficient] : terms_) {
    if (monomial.size() != 1 ||
        (monomial[0]->op != Op::minimum && monomial[0]->op != Op::maximum))
      continue;
    const bool one_is_enough = (monomial[0]->op == Op::minimum) == (coefficient < 0);
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

// ---- Expressions

Size Size::of(const SizeExpression &expression) {
  std::vector<Size> stack;
  for (const SizeTerm &term : expression) {
    if (term.op == Op::constant) {
      stack.emplace_back(term.value);
    } else if (term.op == Op::size) {
      stack.push_back(input(term.slot, term.dimension));
    } else if (term.op == Op::logical_not) {
      stack.back() = made(term.op, stack.back(), Size(0));
    } else {
      const Size right = std::move(stack.back());
      stack.pop_back();
      stack.back() = made(term.op, stack.back(), right);
    }
  }
  return stack.back();
}

SizeExpression Size::expression() const {
  SizeExpression result;
  const auto number = [&](std::int64_t n) { result.push_back({Op::constant, -1, -1, n}); };
  const auto apply = [&](Op op) { result.push_back({op, -1, -1, 0}); };
  const auto append = [&](const SizeExpression &part) {
    result.insert(result.end(), part.begin(), part.end());
  };
  // What is subtracted comes last, so that the expression seldom starts with 0.
  std::vector<const Terms::value_type *> terms;
  for (auto term = terms_.rbegin(); term != terms_.rend(); ++term)
    terms.push_back(&*term);
  std::stable_partition(terms.begin(), terms.end(), [](const auto *t) { return t->second > 0; });
  if (terms.empty() || (terms.front()->second < 0 && !terms.front()->first.empty()))
    number(0);
  for (const auto *term : terms) {
    const bool first = result.empty();
    const auto &[monomial, coefficient] = *term;
    if (monomial.empty()) {
      number(first ? coefficient : std::abs(coefficient));
    } else {
      for (std::size_t i = 0; i < monomial.size(); ++i) {
        const Atom &atom = *monomial[i];
        if (atom.op == Op::size) {
          result.push_back({Op::size, atom.slot, atom.dimension, 0});
        } else {
          append(atom.left.expression());
          if (atom.op != Op::logical_not)
            append(atom.right.expression());
          apply(atom.op);
        }
        if (i)
          apply(Op::multiply);
      }
      if (std::abs(coefficient) != 1) {
        number(std::abs(coefficient));
        apply(Op::multiply);
      }
    }
    if (!first)
      apply(coefficient < 0 ? Op::subtract : Op::add);
  }
  return result;
}

std::optional<bool> always(const SizeExpression &comparison) {
  const auto value = Size::of(comparison).constant();
  return value ? std::optional(*value != 0) : std::nullopt;
}

} // namespace tracehost::trace
