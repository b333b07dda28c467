#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// Python's arithmetic on numbers, as ops of graphs.
///
/// Problem: TorchScript's own ops differ from Python's: an int modulo 0 ends the process, `2 ** 3`
/// is a float, an int64 wraps, `1.0 / 0` and `math.log(0)` do not raise. Answer: tracehost has an
/// op for each operator of Python and the functions of `math` that training loops use, equal to
/// CPython's to the bit. Python computes everything else: the body needs the number itself.
///
///     tracehost::py_add(Scalar a, Scalar b) -> Scalar        a + b
///     tracehost::py_round_to(Scalar a, Scalar b) -> Scalar   round(a, b)
///     tracehost::py_math_log(Scalar a) -> Scalar             math.log(a)
///
/// A Scalar is here an int, a float or a bool. A bool counts as an int, as in Python.
///
/// Where Python raises, an op throws Raised (ops.h) with Python 3.11's type and text. Where
/// Python's result is an int past 64 bits or a complex number, it throws LeavesNumbers. Such ops
/// stay in the graph, whether used or not; the others are pure.

namespace tracehost {

enum class NumberKind : std::uint8_t { boolean, integer, real };

/// A Python number that fits a word.
struct Number {
  NumberKind kind = NumberKind::integer;
  union {
    std::int64_t integer = 0; ///< of a boolean, too: 0 or 1
    double real;
  };

  static Number of(bool value) { return of_integer(NumberKind::boolean, value ? 1 : 0); }
  static Number of(std::int64_t value) { return of_integer(NumberKind::integer, value); }
  static Number of(double value) {
    Number made;
    made.kind = NumberKind::real;
    made.real = value;
    return made;
  }

  bool is_real() const { return kind == NumberKind::real; }
  bool is_boolean() const { return kind == NumberKind::boolean; }
  /// As float() gives it: an int is rounded to the nearest double.
  double as_real() const { return is_real() ? real : static_cast<double>(integer); }

private:
  static Number of_integer(NumberKind kind, std::int64_t value) {
    Number made;
    made.kind = kind;
    made.integer = value;
    return made;
  }
};

/// Of an int, a float or a bool.
inline NumberKind kind_of(const c10::IValue &number) {
  return number.isBool()  ? NumberKind::boolean
         : number.isInt() ? NumberKind::integer
                          : NumberKind::real;
}

struct NumberOp {
  using Evaluate = Number (*)(const NumberOp &, const Number *arguments);
  using KindOfResult = std::optional<NumberKind> (*)(const NumberKind *operands);

  std::string_view name; ///< `add`, `math_log`; `py_` stands before it in a graph
  std::size_t arity;     ///< 1 or 2
  bool raises;           ///< may throw Raised or LeavesNumbers
  Evaluate evaluate;
  KindOfResult kind;
};

/// Python has a result, but it is no int64, no float and no bool.
class LeavesNumbers : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// All of them, in the order of their families.
const std::vector<const NumberOp *> &number_ops();
/// Null: there is none of that name.
const NumberOp *find_number_op(std::string_view name);

/// Whether a node of this kind computes with numbers alone (`tracehost::py_add`).
bool is_number_op(std::string_view kind);

/// The op that returns whether a number op raises (throws Raised) for its operands:
/// `tracehost::py_raises(str op, Scalar a, Scalar b) -> Scalar`. The operand of a unary op is
/// passed twice.
constexpr std::string_view kRaisesOp = "tracehost::py_raises";

/// The op of graphs that gives the text of a number: `tracehost::py_text(Scalar n, str spec)`.
constexpr std::string_view kTextOp = "tracehost::py_text";
/// What Python's format(number, spec) gives; nullopt: Python raises, or it is not done here.
std::optional<std::string> text_of_number(const c10::IValue &number, std::string_view spec);

/// Throws Raised, LeavesNumbers. Requires: as many arguments as the op's arity, each an int, a
/// float or a bool.
c10::IValue apply_number_op(const NumberOp &op, c10::ArrayRef<c10::IValue> arguments);

/// The kind of the result, if it follows from the operands' kinds. nullopt: it depends on their
/// values (`2 ** n`, `min` of an int and a float), or the op raises for all operands of these
/// kinds.
std::optional<NumberKind> kind_of_result(const NumberOp &op, c10::ArrayRef<NumberKind> operands);

} // namespace tracehost
