#include "trace/size_algebra.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace tracehost::trace {
namespace {

using Op = SizeTerm::Op;
using Monomial = std::vector<std::size_t>; ///< unknowns, sorted, repeated for powers
using Polynomial = std::map<Monomial, std::int64_t>;

Polynomial number(std::int64_t n) { return n ? Polynomial{{{}, n}} : Polynomial{}; }

Polynomial sum(Polynomial a, const Polynomial &b, std::int64_t factor) {
  for (const auto &[monomial, coefficient] : b)
    if ((a[monomial] += factor * coefficient) == 0)
      a.erase(monomial);
  return a;
}

Polynomial product(const Polynomial &a, const Polynomial &b) {
  Polynomial result;
  for (const auto &[x, m] : a)
    for (const auto &[y, n] : b) {
      Monomial z = x;
      z.insert(z.end(), y.begin(), y.end());
      std::sort(z.begin(), z.end());
      result = sum(std::move(result), {{z, m * n}}, 1);
    }
  return result;
}

std::int64_t constant_part(const Polynomial &p) {
  const auto found = p.find({});
  return found == p.end() ? 0 : found->second;
}

struct Form {
  Polynomial value;
  std::optional<bool> truth; ///< of a comparison
};

class Algebra {
public:
  std::optional<bool> read(const SizeExpression &expression);

private:
  struct Unknown {
    Op op;
    std::int64_t slot, dimension; ///< of a size
    Polynomial left, right;       ///< of anything else
    bool at_least_0;
    bool operator==(const Unknown &) const = default;
  };
  Polynomial unknown(Unknown u);
  Form combine(Op op, const Form &a, const Form &b);
  std::optional<bool> compare(Op op, const Polynomial &a, const Polynomial &b) const;
  /// Whether all terms but the constant have this sign (or there are none).
  bool signs(const Polynomial &p, int sign) const;

  std::vector<Unknown> unknowns_;
};

Polynomial Algebra::unknown(Unknown u) {
  const auto found = std::find(unknowns_.begin(), unknowns_.end(), u);
  const auto index = static_cast<std::size_t>(found - unknowns_.begin());
  if (found == unknowns_.end())
    unknowns_.push_back(std::move(u));
  return {{{index}, 1}};
}

bool Algebra::signs(const Polynomial &p, int sign) const {
  return std::all_of(p.begin(), p.end(), [&](const auto &term) {
    return term.first.empty() ||
           (term.second * sign > 0 &&
            std::all_of(term.first.begin(), term.first.end(),
                        [&](std::size_t u) { return unknowns_[u].at_least_0; }));
  });
}

std::optional<bool> Algebra::compare(Op op, const Polynomial &a, const Polynomial &b) const {
  const Polynomial d = sum(b, a, -1); // a < b where it is above 0
  const std::int64_t c = constant_part(d);
  if (op == Op::less || op == Op::less_equal) {
    const std::int64_t least = op == Op::less ? 1 : 0;
    if (c >= least && signs(d, 1))
      return true;
    if (c < least && signs(d, -1))
      return false;
    return std::nullopt;
  }
  const bool equal = op == Op::equal;
  if (d.empty())
    return equal;
  if ((c > 0 && signs(d, 1)) || (c < 0 && signs(d, -1)))
    return !equal;
  std::int64_t divisor = 0;
  for (const auto &[monomial, coefficient] : d)
    if (!monomial.empty())
      divisor = std::gcd(divisor, coefficient);
  if (divisor && c % divisor)
    return !equal;
  return std::nullopt;
}

Form Algebra::combine(Op op, const Form &a, const Form &b) {
  switch (op) {
  case Op::add:
    return {sum(a.value, b.value, 1), {}};
  case Op::subtract:
    return {sum(a.value, b.value, -1), {}};
  case Op::multiply:
    return {product(a.value, b.value), {}};
  default:
    break;
  }
  Form form;
  const auto positive = [&](const Polynomial &p) { return constant_part(p) >= 0 && signs(p, 1); };
  form.value = unknown({op, 0, 0, a.value, b.value, positive(a.value) && positive(b.value)});
  if (op == Op::logical_and && (a.truth == false || b.truth == false))
    form.truth = false;
  else if (op == Op::logical_and && a.truth && b.truth)
    form.truth = true;
  else if (op == Op::logical_or && (a.truth == true || b.truth == true))
    form.truth = true;
  else if (op == Op::logical_or && a.truth && b.truth)
    form.truth = false;
  else if (op >= Op::equal && op <= Op::less_equal)
    form.truth = compare(op, a.value, b.value);
  return form;
}

std::optional<bool> Algebra::read(const SizeExpression &expression) {
  std::vector<Form> stack;
  for (const SizeTerm &term : expression) {
    if (term.op == Op::constant) {
      stack.push_back({number(term.value), {}});
    } else if (term.op == Op::size) {
      stack.push_back({unknown({term.op, term.slot, term.dimension, {}, {}, true}), {}});
    } else if (term.op == Op::logical_not) {
      Form &top = stack.back();
      top.value = unknown({term.op, 0, 0, top.value, {}, true});
      if (top.truth)
        top.truth = !*top.truth;
    } else {
      const Form right = std::move(stack.back());
      stack.pop_back();
      stack.back() = combine(term.op, stack.back(), right);
    }
  }
  return stack.back().truth;
}

} // namespace

std::optional<bool> always(const SizeExpression &comparison) { return Algebra().read(comparison); }

} // namespace tracehost::trace
