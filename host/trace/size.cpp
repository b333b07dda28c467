#include "trace/size.h"

#include "trace/exact_arithmetic.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tracehost::trace {

namespace {

constexpr unsigned kHeaviest = 160; ///< terms of an expression

} // namespace

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
  Size result = op == Op::add                             ? sum(a, b, 1)
                : op == Op::subtract                      ? sum(a, b, -1)
                : op == Op::multiply                      ? product(a, b)
                : op == Op::floor_divide                  ? divided(a, b)
                : op == Op::remainder                     ? rest(a, b)
                : op == Op::minimum || op == Op::maximum  ? bound(op, a, b)
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
    // Of an atom, rounded to 0: `n - min(n, 7)` stays together, which is 0 or more.
    const std::int64_t quotient =
        monomial.empty() ? quotient_down(coefficient, divisor) : coefficient / divisor;
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
    reduced.add_term(monomial, coefficient - quotient_down(coefficient, *divisor) * *divisor);
  return reduced.constant() ? reduced : atom(Op::remainder, reduced, b);
}

/// A maximum is the sum without the minimum, and a minimum has no number to add: so what a slice
/// takes and what it leaves make the whole again.
///
///     max(n - 2, 0)   n - min(n, 2)
///     min(n - 2, 0)   min(n, 2) - 2
Size Size::bound(Op op, const Size &a, const Size &b) {
  if (decided(Op::less_equal, a, b) == true)
    return op == Op::minimum ? a : b;
  if (decided(Op::less_equal, b, a) == true)
    return op == Op::minimum ? b : a;
  if (op == Op::maximum)
    return sum(sum(a, b, 1), bound(Op::minimum, a, b), -1);
  const std::int64_t shift = a.constant()   ? b.constant_part()
                             : b.constant() ? a.constant_part()
                                            : std::min(a.constant_part(), b.constant_part());
  const Size x = sum(a, shift, -1), y = sum(b, shift, -1);
  if (!x.known_ || !y.known_)
    return {};
  const bool number_last = y.constant().has_value(); // as people write it
  const bool ordered = number_last || (!x.constant() && order(x.terms_, y.terms_) <= 0);
  return sum(ordered ? atom(op, x, y) : atom(op, y, x), shift, 1);
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
    std::set_difference(monomial.begin(), monomial.end(), lead.begin(), lead.end(),
                        std::back_inserter(rest),
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
  // A maximum, as people write it.
  for (const auto &[monomial, coefficient] : terms_) {
    if (coefficient != -1 || monomial.size() != 1 || monomial[0]->op != Op::minimum)
      continue;
    Size rest = *this;
    rest.terms_.erase(monomial);
    rest = sum(sum(rest, monomial[0]->left, -1), monomial[0]->right, -1);
    const auto added = rest.constant();
    if (!added)
      continue;
    append(monomial[0]->left.expression());
    append(monomial[0]->right.expression());
    apply(Op::maximum);
    if (*added) {
      number(std::abs(*added));
      apply(*added < 0 ? Op::subtract : Op::add);
    }
    return result;
  }
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
