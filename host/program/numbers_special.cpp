#include "program/number_families.h"

#include <array>
#include <cmath>

/// What CPython computes in its own way: math.gamma, math.lgamma, math.hypot. libm's results differ
/// in the last bits, so each step here is one of CPython's, in its order. The compiler must not
/// fuse a multiplication with an addition: -ffp-contract=off.

namespace tracehost::numbers {
namespace {

// Lanczos' approximation for 13 terms, with Boost's parameters: gamma(x) is
// (x + g - 1/2) ** (x - 1/2) / e ** (x + g - 1/2) times a rational function of x.
constexpr double kG = 6.024680040776729583740234375;
constexpr double kGLessHalf = 5.524680040776729583740234375;
constexpr double kLogPi = 1.144729885849400174143427351353058711647;

struct Coefficients {
  double above, below;
};
constexpr std::array<Coefficients, 13> kLanczos = {{
    {23531376880.410759688572007674451636754734846804940, 0.0},
    {42919803642.649098768957899047001988850926355848959, 39916800.0},
    {35711959237.355668049440185451547166705960488635843, 120543840.0},
    {17921034426.037209699919755754458931112671403265390, 150917976.0},
    {6039542586.3520280050642916443072979210699388420708, 105258076.0},
    {1439720407.3117216736632230727949123939715485786772, 45995730.0},
    {248874557.86205415651146038641322942321632125127801, 13339535.0},
    {31426415.585400194380614231628318205362874684987640, 2637558.0},
    {2876370.6289353724412254090516208496135991145378768, 357423.0},
    {186056.26539522349504029498971604569928220784236328, 32670.0},
    {8071.6720023658162106380029022722506138218516325024, 1925.0},
    {210.82427775157934587250973392071336271166969580291, 66.0},
    {2.5066282746310002701649081771338373386264310793408, 1.0},
}};

/// The rational function, for positive x. A large x stands below, where its powers can't overflow.
double lanczos_sum(double x) {
  double above = 0, below = 0;
  if (x < 5.0) {
    for (auto c = kLanczos.rbegin(); c != kLanczos.rend(); ++c) {
      above = above * x + c->above;
      below = below * x + c->below;
    }
  } else {
    for (const Coefficients &c : kLanczos) {
      above = above / x + c.above;
      below = below / x + c.below;
    }
  }
  return above / below;
}

/// sin(pi * x), exact where that is 0, 1 or -1.
double sin_of_pi_times(double x) {
  const double y = std::fmod(std::fabs(x), 2.0);
  double found = 0;
  switch (static_cast<int>(std::round(2.0 * y))) { // the nearest quarter of the circle
  case 0:
    found = std::sin(M_PI * y);
    break;
  case 1:
    found = std::cos(M_PI * (y - 0.5));
    break;
  case 2:
    found = std::sin(M_PI * (1.0 - y));
    break;
  case 3:
    found = -std::cos(M_PI * (y - 1.5));
    break;
  default:
    found = std::sin(M_PI * (y - 2.0));
  }
  return std::copysign(1.0, x) * found;
}

/// Of 1, 2, ... 23: exact, as all are below 2 ** 53 times a power of two.
double factorial_below(int n) {
  double product = 1;
  for (int i = 2; i < n; ++i)
    product *= i;
  return product;
}

/// Multiplied or divided by base ** (size - 1/2), in two steps where one would overflow.
template <class Step> double with_power(double value, double base, double size, const Step &step) {
  if (size < 140.0)
    return step(value, std::pow(base, size - 0.5));
  const double root = std::pow(base, size / 2.0 - 0.25);
  return step(step(value, root), root);
}

/// Away from the poles, 0.0 and integers, and where it is neither infinite nor 0.
double gamma_by_lanczos(double x) {
  const double size = std::fabs(x);
  const double y = size + kGLessHalf;
  // What the addition above lost, from the smaller of the two.
  const double lost = size > kGLessHalf ? (y - size) - kGLessHalf : (y - kGLessHalf) - size;
  const double correction = lost * kG / y;
  if (x < 0) { // by reflection
    double value = -M_PI / sin_of_pi_times(size) / size * std::exp(y) / lanczos_sum(size);
    value -= correction * value;
    return with_power(value, y, size, [](double a, double b) { return a / b; });
  }
  double value = lanczos_sum(size) / std::exp(y);
  value += correction * value;
  return with_power(value, y, size, [](double a, double b) { return a * b; });
}

Number gamma(const NumberOp &, const Number *a) {
  const double x = a->as_real();
  if (std::isnan(x) || x == HUGE_VAL)
    return Number::of(x);
  const bool whole = x == std::floor(x);
  if (x == 0 || (whole && x < 0)) // -inf is whole
    raise_value_error("math domain error");
  if (whole && x <= 23)
    return Number::of(factorial_below(static_cast<int>(x)));
  double value = 0;
  if (std::fabs(x) < 1e-20)
    value = 1.0 / x;
  else if (std::fabs(x) > 200.0)
    value = x < 0 ? 0.0 / sin_of_pi_times(x) : HUGE_VAL;
  else
    value = gamma_by_lanczos(x);
  if (std::isinf(value))
    raise_overflow("math range error");
  return Number::of(value);
}

Number lgamma(const NumberOp &, const Number *a) {
  const double x = a->as_real();
  if (!std::isfinite(x))
    return Number::of(std::isnan(x) ? x : HUGE_VAL);
  if (x == std::floor(x) && x <= 2.0) {
    if (x <= 0)
      raise_value_error("math domain error");
    return Number::of(0.0);
  }
  const double size = std::fabs(x);
  if (size < 1e-20)
    return Number::of(-std::log(size));
  double value = std::log(lanczos_sum(size)) - kG;
  value += (size - 0.5) * (std::log(size + kG - 0.5) - 1);
  if (x < 0) // by reflection
    value = kLogPi - std::log(std::fabs(sin_of_pi_times(size))) - std::log(size) - value;
  if (std::isinf(value))
    raise_overflow("math range error");
  return Number::of(value);
}

/// A sum that keeps what each addition loses. Requires: what is added is at most 1 in size.
struct Sum {
  double total = 1.0;
  double of_squares = 0, of_products = 0, of_rests = 0;

  void add(double term, double &lost) {
    const double before = total;
    total += term;
    lost += (before - total) + term;
  }
  double value() const { return total - 1.0 + (of_squares + of_products + of_rests); }
};

/// x as the sum of two numbers of 26 bits, whose products are exact.
struct Split {
  double high, low;
  explicit Split(double x) {
    const double scaled = x * 134217729.0; // 2 ** 27 + 1
    high = scaled - (scaled - x);
    low = x - high;
  }
};

/// Of finite, positive coordinates. The root is corrected by one step of Newton's.
double norm(double largest, double x, double y) {
  int exponent = 0;
  std::frexp(largest, &exponent);
  Sum sum;
  if (exponent < -1023) {
    // No power of two scales these up. From 3.12 on Python scales twice, and has other last bits.
    for (const double coordinate : {x / largest, y / largest})
      sum.add(coordinate * coordinate, sum.of_squares);
    return largest * std::sqrt(sum.total - 1.0 + sum.of_squares);
  }
  const double scale = std::ldexp(1.0, -exponent);
  for (const double coordinate : {x * scale, y * scale}) {
    const Split part(coordinate);
    sum.add(part.high * part.high, sum.of_squares);
    sum.add(2.0 * part.high * part.low, sum.of_products);
    sum.of_rests += part.low * part.low; // too small to change the total
  }
  const double root = std::sqrt(sum.value());
  const Split part(root);
  sum.add(-part.high * part.high, sum.of_squares);
  sum.add(-2.0 * part.high * part.low, sum.of_products);
  sum.add(-part.low * part.low, sum.of_rests);
  return (root + sum.value() / (2.0 * root)) / scale;
}

Number hypot(const NumberOp &, const Number *a) {
  const double x = std::fabs(a[0].as_real()), y = std::fabs(a[1].as_real());
  if (std::isinf(x) || std::isinf(y))
    return Number::of(HUGE_VAL);
  if (std::isnan(x) || std::isnan(y))
    return Number::of(std::nan(""));
  const double largest = x > y ? x : y;
  return Number::of(largest == 0 ? 0.0 : norm(largest, x, y));
}

constexpr NumberOp kSpecial[] = {
    {"math_gamma", 1, true, gamma, always_real},
    {"math_lgamma", 1, true, lgamma, always_real},
    {"math_hypot", 2, false, hypot, always_real},
};

} // namespace

std::span<const NumberOp> special() { return kSpecial; }

} // namespace tracehost::numbers
