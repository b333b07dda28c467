#include "program/number_families.h"

#include <cmath>

/// Comparisons, truth, the smaller and the larger of two.

namespace tracehost::numbers {
namespace {

int compare_reals(double a, double b) {
  if (a < b)
    return -1;
  return a == b ? 0 : a > b ? 1 : 2;
}

/// Without rounding the int: 2 ** 53 + 1 is more than 2.0 ** 53.
int compare_mixed(std::int64_t a, double b) {
  if (std::isnan(b))
    return 2;
  if (b >= 0x1p63)
    return -1;
  if (b < -0x1p63)
    return 1;
  const double floor = std::floor(b);
  const auto whole = static_cast<std::int64_t>(floor);
  if (a != whole)
    return a < whole ? -1 : 1;
  return b > floor ? -1 : 0;
}

} // namespace

int compare(const Number &a, const Number &b) {
  if (a.is_real() && b.is_real())
    return compare_reals(a.real, b.real);
  if (b.is_real())
    return compare_mixed(a.integer, b.real);
  if (a.is_real()) {
    const int turned = compare_mixed(b.integer, a.real);
    return turned == 2 ? 2 : -turned;
  }
  return a.integer < b.integer ? -1 : a.integer > b.integer;
}

namespace {

Number eq(const NumberOp &, const Number *a) { return Number::of(compare(a[0], a[1]) == 0); }
Number ne(const NumberOp &, const Number *a) { return Number::of(compare(a[0], a[1]) != 0); }
Number lt(const NumberOp &, const Number *a) { return Number::of(compare(a[0], a[1]) == -1); }
Number le(const NumberOp &, const Number *a) { return Number::of(compare(a[0], a[1]) <= 0); }
Number gt(const NumberOp &, const Number *a) { return Number::of(compare(a[0], a[1]) == 1); }
Number ge(const NumberOp &, const Number *a) {
  const int order = compare(a[0], a[1]);
  return Number::of(order == 0 || order == 1);
}

bool is_true(const Number &a) { return a.is_real() ? a.real != 0 : a.integer != 0; }
Number truth(const NumberOp &, const Number *a) { return Number::of(is_true(*a)); }
Number negation(const NumberOp &, const Number *a) { return Number::of(!is_true(*a)); }

// Of two that are equal, the first.
Number min(const NumberOp &, const Number *a) { return compare(a[1], a[0]) == -1 ? a[1] : a[0]; }
Number max(const NumberOp &, const Number *a) { return compare(a[1], a[0]) == 1 ? a[1] : a[0]; }

Kind same_kind(const NumberKind *k) { return k[0] == k[1] ? Kind(k[0]) : Kind(); }

constexpr NumberOp kComparing[] = {
    {"eq", 2, false, eq, always_boolean},       {"ne", 2, false, ne, always_boolean},
    {"lt", 2, false, lt, always_boolean},       {"le", 2, false, le, always_boolean},
    {"gt", 2, false, gt, always_boolean},       {"ge", 2, false, ge, always_boolean},
    {"truth", 1, false, truth, always_boolean}, {"not", 1, false, negation, always_boolean},
    {"min", 2, false, min, same_kind},          {"max", 2, false, max, same_kind},
};

} // namespace

std::span<const NumberOp> comparing() { return kComparing; }

} // namespace tracehost::numbers
