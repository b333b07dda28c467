#pragma once

#include "region/ops.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

/// Pointwise programs that run as a region, and by at:: ops.

namespace tracehost::region {

struct Ref {
  int value; ///< of an input; behind these, of a step
};
using StepArgument = std::variant<std::monostate, Ref, double, bool, std::string>;

struct ProgramStep {
  std::string op;                      ///< name and overload
  std::vector<StepArgument> arguments; ///< the first ones of the schema
};

struct PointwiseProgram {
  std::vector<RegionInput> inputs = {};
  std::vector<ProgramStep> steps = {};
  std::vector<int> outputs = {}; ///< steps
};

constexpr std::size_t kGuards = 64; ///< bytes before and behind an output
constexpr auto kGuard = std::byte{0xab};

/// A copy of a tensor's values at an address that no vector has.
class Unaligned {
public:
  Unaligned(std::size_t bytes, std::size_t itemsize)
      : memory_(bytes + 2 * kGuards + 64, kGuard), bytes_(bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.data());
    start_ = memory_.data() + kGuards + (64 - start % 64) % 64 - (64 - itemsize);
  }
  explicit Unaligned(const at::Tensor &t) : Unaligned(t.nbytes(), t.itemsize()) {
    std::memcpy(start_, t.contiguous().const_data_ptr(), bytes_);
  }
  std::byte *data() { return start_; }
  bool is_guarded() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(memory_.data(), static_cast<const std::byte *>(start_), is_guard) &&
           std::all_of(static_cast<const std::byte *>(start_) + bytes_,
                       memory_.data() + memory_.size(), is_guard);
  }

private:
  std::vector<std::byte> memory_;
  std::size_t bytes_;
  std::byte *start_;
};

inline RegionArgument argument_of(const StepArgument &argument,
                                  const std::vector<RegionOperand> &values) {
  if (const auto *ref = std::get_if<Ref>(&argument))
    return values[static_cast<std::size_t>(ref->value)];
  if (const auto *number = std::get_if<double>(&argument))
    return c10::Scalar(*number);
  if (const auto *flag = std::get_if<bool>(&argument))
    return c10::Scalar(*flag);
  if (const auto *text = std::get_if<std::string>(&argument))
    return std::string_view(*text);
  return {};
}

inline c10::IValue value_of(const StepArgument &argument, const std::vector<at::Tensor> &values) {
  if (const auto *ref = std::get_if<Ref>(&argument))
    return values[static_cast<std::size_t>(ref->value)];
  if (const auto *number = std::get_if<double>(&argument))
    return *number;
  if (const auto *flag = std::get_if<bool>(&argument))
    return *flag;
  if (const auto *text = std::get_if<std::string>(&argument))
    return *text;
  return {};
}

/// None, where a region can't have a step.
inline std::optional<RegionPlan> plan_of(const PointwiseProgram &program, c10::ScalarType dtype) {
  RegionPlan plan{.dtype = dtype, .inputs = program.inputs};
  std::vector<RegionOperand> values;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    values.push_back(RegionOperand::input(static_cast<int>(i)));
  for (const ProgramStep &step : program.steps) {
    std::vector<RegionArgument> arguments;
    for (const StepArgument &argument : step.arguments)
      arguments.push_back(argument_of(argument, values));
    const auto result = add_to_region(plan, step.op, arguments);
    if (!result)
      return std::nullopt;
    values.push_back(*result);
  }
  for (const int output : program.outputs)
    plan.outputs.push_back(values[program.inputs.size() + static_cast<std::size_t>(output)].index);
  return plan;
}

inline std::vector<at::Tensor> by_eager(const PointwiseProgram &program,
                                        std::vector<at::Tensor> values) {
  const at::NoGradGuard no_grad;
  for (const ProgramStep &step : program.steps) {
    const auto dot = step.op.find('.');
    const std::string overload = dot == std::string::npos ? "" : step.op.substr(dot + 1);
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
        step.op.substr(0, dot).c_str(), overload.c_str());
    std::vector<c10::IValue> stack;
    for (std::size_t i = 0; i < handle.schema().arguments().size(); ++i)
      stack.push_back(i < step.arguments.size() ? value_of(step.arguments[i], values)
                                                : *handle.schema().arguments()[i].default_value());
    handle.callBoxed(stack);
    values.push_back(stack.at(0).toTensor());
  }
  std::vector<at::Tensor> outputs;
  for (const int output : program.outputs)
    outputs.push_back(values[program.inputs.size() + static_cast<std::size_t>(output)]);
  return outputs;
}

/// Runs over `n` values at addresses that are aligned to one value alone. Expects that nothing
/// beside the outputs is written.
inline std::vector<at::Tensor> by_region(const Region &region,
                                         const std::vector<at::Tensor> &inputs, std::size_t outputs,
                                         std::int64_t n) {
  const c10::ScalarType dtype = inputs.at(0).scalar_type();
  const std::size_t itemsize = c10::elementSize(dtype);
  std::vector<Unaligned> in, out;
  for (const at::Tensor &input : inputs)
    in.emplace_back(input);
  std::vector<const void *> read;
  for (Unaligned &array : in)
    read.push_back(array.data());
  for (std::size_t i = 0; i < outputs; ++i)
    out.emplace_back(static_cast<std::size_t>(n) * itemsize, itemsize);
  std::vector<void *> written;
  for (Unaligned &array : out)
    written.push_back(array.data());
  region.run(read.data(), written.data(), n);
  std::vector<at::Tensor> results;
  for (Unaligned &array : out) {
    EXPECT_TRUE(array.is_guarded()) << "writes beyond " << n << " values";
    results.push_back(at::empty({n}, dtype));
    if (n > 0)
      std::memcpy(results.back().mutable_data_ptr(), array.data(), results.back().nbytes());
  }
  return results;
}

/// The bits are equal, or both are NaN.
inline void expect_same_values(const at::Tensor &found, const at::Tensor &expected) {
  ASSERT_EQ(found.numel(), expected.numel());
  ASSERT_EQ(found.scalar_type(), expected.scalar_type());
  const auto bits = found.scalar_type() == at::kFloat ? at::kInt : at::kLong;
  const at::Tensor a = found.reshape(-1), b = expected.reshape(-1);
  const at::Tensor differ = (a.view(bits) != b.view(bits)) & ~(a.isnan() & b.isnan());
  if (!differ.any().item<bool>())
    return;
  const at::Tensor places = differ.nonzero().reshape(-1);
  const auto first = places[0].item<std::int64_t>();
  ADD_FAILURE() << places.numel() << " of " << a.numel() << " differ, the first at " << first
                << ": " << ::testing::PrintToString(a[first].item<double>()) << " and not "
                << ::testing::PrintToString(b[first].item<double>());
}

/// Values of all kinds: NaN, infinities, denormals, zeros of both signs, huge, tiny, usual ones.
inline at::Tensor full_range(std::int64_t n, c10::ScalarType dtype, int seed) {
  at::Generator random = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor normal = at::randn({n}, random, options);
  const at::Tensor scale = at::pow(10, at::randint(-30, 31, {n}, random, options));
  const bool is_double = dtype == at::kDouble;
  const double tiny = is_double ? 5e-324 : 1.4e-45, least = is_double ? 2.3e-308 : 1.2e-38,
               most = is_double ? 1.7e308 : 3.4e38, inf = INFINITY;
  const at::Tensor special = at::tensor({0.0,   -0.0,       inf,  -inf,   static_cast<double>(NAN),
                                         1.0,   -1.0,       0.5,  tiny,   -tiny,
                                         least, -least / 2, most, -most,  2.0,
                                         3.0,   -2.5,       88.0, -104.0, 710.0},
                                        options);
  const at::Tensor chosen =
      special.index({at::randint(0, special.numel(), {n}, random, at::kLong)});
  const at::Tensor kind = at::randint(0, 10, {n}, random, options);
  return at::where(kind < 5, normal, at::where(kind < 7, normal * scale, chosen)).to(dtype);
}

/// Values that are often equal to others, zeros of both signs among them.
inline at::Tensor few_values(std::int64_t n, c10::ScalarType dtype, int seed) {
  at::Generator random = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  const at::Tensor all =
      at::tensor({0.0, -0.0, 1.0, static_cast<double>(NAN)}, at::TensorOptions(dtype));
  return all.index({at::randint(0, all.numel(), {n}, random, at::kLong)});
}

/// Those that regions can have here; none where eager uses no vectors, or without xbyak.
inline std::vector<RegionIsa> all_isas() {
  std::string why;
  const RegionPlan plan{
      .inputs = {{}}, .ops = {{RegionCode::neg, RegionOperand::input(0)}}, .outputs = {0}};
  if (!region_isa() || (!Region::compile(plan, why) && why == "tracehost was built without xbyak"))
    return {};
  return *region_isa() == RegionIsa::avx2 ? std::vector{RegionIsa::avx2}
                                          : std::vector{RegionIsa::avx2, RegionIsa::avx512};
}

} // namespace tracehost::region
