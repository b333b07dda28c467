#pragma once

#include "signature/size_condition.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace tracehost::trace {

/// A size as a function of the dynamic dimensions of inputs, or not known.
///
/// Problem: is a size of a result the same at each call? Is it an input's? Answer: sizes are
/// integer polynomials over *atoms*, so equal sizes have equal polynomials. An atom is a size of an
/// input, or an operation that no polynomial can express: //, %, min, max, a comparison (0 or 1).
///
///     (x.0 + 2 - 3) // 1 + 1     x.0
///     (2 * x.0 + 1) // 2         x.0
///     min(x.0, x.0 - 1)          x.0 - 1
///     min(x.0, 1024)             an atom, between 0 and 1024
///
/// What is computed of an unknown size is unknown. So is what has too many terms for a condition.
class Size {
public:
  using Op = SizeTerm::Op;

  /// A condition that a Size holds under.
  struct Need {
    SizeExpression expression;
    bool expected = true;
    bool operator==(const Need &) const = default;
  };

  Size() = default;     ///< not known
  Size(std::int64_t n); // NOLINT(google-explicit-constructor): rules compute with numbers
  static Size input(std::int32_t slot, std::int32_t dimension);
  /// Comparisons give 0 or 1.
  static Size of(const SizeExpression &expression);
  /// `a op b`. A divisor of 0 makes no Size: conditions with one fail.
  static Size made(Op op, const Size &a, const Size &b);

  bool known() const { return known_; }
  std::optional<std::int64_t> constant() const;
  bool is(std::int64_t n) const { return constant() == n; }
  /// Whether it is `n` or more for all sizes of inputs, as far as algebra says.
  bool is_at_least(std::int64_t n) const;
  /// Requires: known().
  SizeExpression expression() const;
  const std::vector<Need> &needs() const { return needs_; }
  Size with(Need need) const;
  Size without_needs() const;

  /// The comparisons that its minima and maxima make.
  void add_bounds(std::vector<SizeExpression> &to) const;

  /// Equal for all sizes of inputs.
  bool operator==(const Size &other) const;

  friend Size operator+(const Size &a, const Size &b) { return made(Op::add, a, b); }
  friend Size operator-(const Size &a, const Size &b) { return made(Op::subtract, a, b); }
  friend Size operator*(const Size &a, const Size &b) { return made(Op::multiply, a, b); }

private:
  struct Atom;
  struct Bounds {
    std::optional<std::int64_t> least, most;
  };
  using Factor = std::shared_ptr<const Atom>;
  using Monomial = std::vector<Factor>; ///< sorted; repeated for powers
  struct Before {
    bool operator()(const Monomial &a, const Monomial &b) const;
  };
  using Terms = std::map<Monomial, std::int64_t, Before>;

  static int order(const Atom &a, const Atom &b);
  static int order(const Terms &a, const Terms &b);
  static Size atom(Op op, const Size &a, const Size &b);
  static Bounds bounds_of(Op op, const Size &a, const Size &b);
  static Bounds bounds(const Monomial &monomial);
  Bounds bounds() const;
  static Size sum(const Size &a, const Size &b, std::int64_t factor);
  static Size product(const Size &a, const Size &b);
  static Size divided(const Size &a, const Size &b);
  static Size rest(const Size &a, const Size &b);
  static Size bound(Op op, const Size &a, const Size &b);
  static Size compared(Op op, const Size &a, const Size &b);
  static Size joined(Op op, const Size &a, const Size &b);
  static std::optional<bool> decided(Op op, const Size &a, const Size &b);
  bool is_at_least(std::int64_t n, int depth) const;
  bool add_term(const Monomial &monomial, std::int64_t coefficient);
  std::int64_t constant_part() const;
  unsigned weight() const;
  friend Size exact_quotient(const Size &a, const Size &b);

  Terms terms_;
  std::vector<Need> needs_;
  bool known_ = false;
};

/// A size of an input, or an operation on two Sizes.
struct Size::Atom {
  Op op;
  std::int32_t slot, dimension; ///< of a size
  Size left, right;             ///< of an operation
  Bounds bounds;
  unsigned weight;
};

inline Size floor_divide(const Size &a, const Size &b) {
  return Size::made(Size::Op::floor_divide, a, b);
}
/// Rounds up. `b` must be above 0.
inline Size ceil_divide(const Size &a, const Size &b) { return floor_divide(a + b - 1, b); }
inline Size smaller(const Size &a, const Size &b) { return Size::made(Size::Op::minimum, a, b); }
inline Size larger(const Size &a, const Size &b) { return Size::made(Size::Op::maximum, a, b); }
/// a / b where `b` divides `a`, as an op has made sure.
Size exact_quotient(const Size &a, const Size &b);

/// What `comparison` is for all sizes, where that follows from algebra.
///
///     x.0 * 2 == 2 * x.0   always       16 * x.0 == 1   never (16 does not divide 1)
///     x.0 + 1 > 0          always       x.0 == y.0      depends
std::optional<bool> always(const SizeExpression &comparison);

} // namespace tracehost::trace
