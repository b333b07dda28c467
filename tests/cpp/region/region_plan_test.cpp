#include "region/region.h"

#include "support/region_beside.h"

#include <ATen/Version.h>

#include <sys/prctl.h>

#include <cmath>
#include <cstdlib>

/// What a region may not have.

namespace tracehost::region {
namespace {

using Kind = RegionInput::Kind;
using Operand = RegionOperand;

RegionPlan plan_with(std::vector<RegionInput> inputs, std::vector<RegionOp> ops) {
  const int last = static_cast<int>(ops.size()) - 1;
  return {at::kFloat, std::move(inputs), std::move(ops), {last}};
}

TEST(RegionPlans, EagersCapabilityChoosesTheInstructions) {
  const std::string capability = at::get_cpu_capability();
  const std::optional<RegionIsa> isa = region_isa();
  EXPECT_EQ(isa.has_value(), capability == "AVX2" || capability == "AVX512") << capability;
  EXPECT_EQ(isa == RegionIsa::avx512, capability == "AVX512");
}

/// A process may be forbidden to execute what it has written.
TEST(RegionPlans, NoRegionWithoutExecutableMemory) {
  if (all_isas().empty())
    GTEST_SKIP() << "no regions here";
  constexpr int forbid_execution = 65, never_gained = 1; // PR_SET_MDWE, of Linux 6.3
  const auto compile = [&] {
    if (prctl(forbid_execution, never_gained, 0, 0, 0) != 0)
      std::_Exit(0); // an older kernel
    std::string why;
    const RegionPlan plan{
        .inputs = {{}}, .ops = {{RegionCode::neg, Operand::input(0)}}, .outputs = {0}};
    const bool is_explained = !Region::compile(plan, why) && why.starts_with("no machine code: ");
    std::_Exit(is_explained ? 0 : 1);
  };
  EXPECT_EXIT(compile(), ::testing::ExitedWithCode(0), "");
}

TEST(RegionPlans, FaultsHaveReasons) {
  const Operand x = Operand::input(0), one = Operand::number(1);
  const std::vector<RegionInput> values{{}}, row{{Kind::row, 3}}, single{{Kind::one, 0}};
  RegionPlan twice = plan_with(values, {{RegionCode::add, x, one}});
  twice.outputs = {0, 0};
  RegionPlan half = plan_with(values, {{RegionCode::add, x, one}});
  half.dtype = at::kHalf;
  const std::vector<std::pair<RegionPlan, std::string>> cases{
      {plan_with(values, {}), "output -1 is no op"},
      {twice, "there twice"},
      {half, "the dtype Half"},
      {plan_with(values, {{RegionCode::add, x, Operand::result(0)}}), "operand 1 does not exist"},
      {plan_with(values, {{RegionCode::add, x, Operand::input(1)}}), "operand 1 does not exist"},
      {plan_with(values, {{RegionCode::add, x, Operand::number(1e39)}}), "beyond float32"},
      {plan_with(values, {{RegionCode::lt, x, one}}), "a comparison"},
      {plan_with(values, {{RegionCode::lt, x, one}, {RegionCode::neg, Operand::result(0)}}),
       "no other op does"},
      {plan_with(values, {{RegionCode::lt, x, one}, {RegionCode::add, x, Operand::result(0)}}),
       "operand 1 is a comparison"},
      {plan_with(values, {{RegionCode::where, x, x, one}}), "'where' reads a comparison first"},
      {plan_with(values, {{RegionCode::where, one, x, one}}), "'where' reads a comparison first"},
      {plan_with(values, {{RegionCode::gelu, x}}), "not available"},
      {plan_with(row, {{RegionCode::sin, x}}), "eager's bits on a row depend on its length"},
      {plan_with(single, {{RegionCode::sin, x}}), "no operand has a value for each"},
      {plan_with({{Kind::row, 0}}, {{RegionCode::neg, x}}), "a row without values"},
  };
  for (const auto &[plan, expected] : cases) {
    std::string why;
    EXPECT_EQ(Region::compile(plan, RegionIsa::avx2, why), nullptr) << expected;
    EXPECT_NE(why.find(expected), std::string::npos) << why;
  }
}

TEST(RegionPlans, OpsThatRegionsLackLeaveThePlan) {
  const Operand x = Operand::input(0);
  const c10::Scalar nan = static_cast<double>(NAN);
  const std::vector<std::pair<std::string, std::vector<RegionArgument>>> cases{
      {"aten::cumsum", {x, c10::Scalar(0)}},
      {"aten::div.Tensor_mode", {x, x, std::string_view("floor")}},
      {"aten::pow.Tensor_Scalar", {x, c10::Scalar(2.5)}},
      {"aten::clamp", {x, nan}},
      {"aten::clamp", {x}},
      {"aten::add.Scalar", {x, c10::Scalar(1e39)}},
      {"aten::add.Scalar", {x, c10::Scalar((std::int64_t{1} << 53) + 2)}},
      {"aten::add.Scalar", {x, c10::Scalar(0.1), c10::Scalar(0.3)}},
      {"aten::where.self", {x, x, x}},
      {"aten::gelu", {x, std::string_view("none")}},
      {"aten::lerp.Scalar", {x, x, c10::Scalar(1.0)}},
      {"aten::lerp.Tensor", {x, x, x}},
      // For a NaN eager's vectors give 0, and its tail gives the gradient.
      {"aten::hardtanh_backward", {x, x, c10::Scalar(-1), c10::Scalar(1)}},
  };
  for (const auto &[op, arguments] : cases) {
    RegionPlan plan{.inputs = {{}}};
    EXPECT_FALSE(add_to_region(plan, op, arguments)) << op;
    EXPECT_TRUE(plan.ops.empty()) << op;
  }
}

} // namespace
} // namespace tracehost::region
