#pragma once

#include "region/ops.h"

#include <cmath>

/// What writes the ops of one aten op to a plan.

namespace tracehost::region {

/// The op is not one of a region after all.
struct NoRegionOp {};

class RegionWriter {
public:
  RegionWriter(RegionPlan &plan, c10::ArrayRef<RegionArgument> arguments)
      : plan_(plan), arguments_(arguments) {}

  RegionOperand put(RegionCode code, RegionOperand a, RegionOperand b = {}, RegionOperand c = {}) {
    plan_.ops.push_back({code, a, b, c});
    return RegionOperand::result(static_cast<int>(plan_.ops.size()) - 1);
  }

  bool has(std::size_t i) const {
    return i < arguments_.size() && !std::holds_alternative<std::monostate>(arguments_[i]);
  }
  /// A tensor, or a number as one.
  RegionOperand value(std::size_t i) const {
    if (i < arguments_.size())
      if (const auto *tensor = std::get_if<RegionOperand>(&arguments_[i]))
        return *tensor;
    return RegionOperand::number(number(i));
  }
  /// A number that the region's dtype has, but for rounding.
  double number(std::size_t i) const {
    const auto *found = i < arguments_.size() ? std::get_if<c10::Scalar>(&arguments_[i]) : nullptr;
    if (!found || found->isSymbolic() || found->isComplex())
      throw NoRegionOp();
    const double value = found->toDouble();
    constexpr double most_integer = 9007199254740992; // 2^53: eager rounds larger ones once
    if ((found->isIntegral(true) && std::abs(value) > most_integer) || !fits(value))
      throw NoRegionOp();
    return value;
  }
  double number(std::size_t i, double otherwise) const { return has(i) ? number(i) : otherwise; }
  std::string_view text(std::size_t i) const {
    const auto *found =
        i < arguments_.size() ? std::get_if<std::string_view>(&arguments_[i]) : nullptr;
    return found ? *found : std::string_view();
  }

  /// A number, or an input that has one value.
  bool is_one(const RegionOperand &operand) const {
    if (operand.from != RegionOperand::From::input)
      return operand.from == RegionOperand::From::number;
    const RegionInput &input = plan_.inputs[static_cast<std::size_t>(operand.index)];
    return input.kind == RegionInput::Kind::one ||
           (input.kind == RegionInput::Kind::row && input.period == 1);
  }
  /// Numbers that eager computes with in the region's dtype.
  double rounded(double value) const {
    return plan_.dtype == c10::ScalarType::Float ? static_cast<float>(value) : value;
  }

private:
  bool fits(double value) const { return !std::isfinite(value) || std::isfinite(rounded(value)); }

  RegionPlan &plan_;
  c10::ArrayRef<RegionArgument> arguments_;
};

} // namespace tracehost::region
