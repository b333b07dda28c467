#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What a trace assumed about sizes that may differ at later calls (docs/rules/signature.md).
///
///     if x.shape[0] > 2 * y.shape[1]: ...   x.0 | 2 y.1 multiply | less (swapped) -> holds = true

namespace tracehost {

struct Signature;

/// The size of a dynamic dimension in a TensorMeta.
inline constexpr std::int64_t kAnySize = -1;

/// One step of a SizeExpression.
struct SizeTerm {
  enum class Op : std::uint8_t {
    constant, ///< value
    size,     ///< of input `slot` (a slot or, past them, a capture), dimension `dimension`
    add,
    subtract,
    multiply,
    floor_divide, ///< rounds down, as Python's //; a divisor of 0 makes the condition fail
    remainder,    ///< has the divisor's sign, as Python's %
    equal,
    not_equal,
    less,
    less_equal,
    logical_not,
    logical_and,
    logical_or,
    minimum,
    maximum,
  };
  Op op = Op::constant;
  std::int32_t slot = -1;
  std::int32_t dimension = -1;
  std::int64_t value = 0;
  bool operator==(const SizeTerm &) const = default;
};

/// An integer expression over the sizes of a Signature's slots, in postfix order; comparisons give
/// 0 or 1.
using SizeExpression = std::vector<SizeTerm>;

/// A comparison of sizes that the body read as a bool, with what it was.
struct SizeCondition {
  SizeExpression expression;
  bool expected = true;
  std::string where; ///< the line that read it, `net.py:12`
  bool operator==(const SizeCondition &) const = default;
};

/// Reads the size of a dimension of an input.
class SizeSource {
public:
  virtual ~SizeSource() = default;
  virtual std::int64_t size(std::int32_t slot, std::int32_t dimension) const = 0;
};

/// Hot: no allocation for expressions up to 32 terms deep. False where a size is kAnySize or a
/// divisor is 0.
bool holds(const SizeCondition &condition, const SizeSource &sizes);

/// The value of `expression`; nullopt where a size is kAnySize, a divisor is 0, or it overflows.
std::optional<std::int64_t> evaluate(const SizeExpression &expression, const SizeSource &sizes);

/// `x.shape[0] > 2 * y.shape[1]`; the opposite where it was false.
std::string text(const SizeCondition &condition, const Signature &signature);

} // namespace tracehost
