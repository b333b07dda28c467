#include "tape/region.h"

#include "tape/region_beside.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <sys/prctl.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <thread>

/// Regions of many ops beside eager's ops, and what a region may not have.

namespace tracehost::tape {
namespace {

using Kind = RegionInput::Kind;

constexpr std::array kDtypes{at::kFloat, at::kDouble};

/// Programs of random ops, with a seed.
class RandomProgram {
public:
  explicit RandomProgram(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }
  double number() { return static_cast<double>(below(4000)) / 1000 - 2; }

  /// A chain: each step reads the step before, and other inputs.
  PointwiseProgram chain(std::size_t steps) {
    PointwiseProgram program{.inputs = std::vector<RegionInput>(3)};
    while (program.steps.size() < steps)
      add_step(program, program.steps.empty() ? 0 : last(program), below(3), kSimple);
    program.outputs = {static_cast<int>(program.steps.size()) - 1};
    return program;
  }

  /// Steps that read any values, some of them outputs.
  PointwiseProgram graph(std::size_t steps, std::vector<RegionInput> inputs) {
    PointwiseProgram program{.inputs = std::move(inputs)};
    while (program.steps.size() < steps) {
      const std::size_t count = program.inputs.size() + program.steps.size();
      const std::size_t a = below(count),
                        recent = count - 1 - below(std::min<std::size_t>(count, 6));
      if (has_values(program, a) && !is_mask(program, a) && !is_mask(program, recent))
        add_step(program, a, recent, kAll);
    }
    for (std::size_t i = 0; i < steps; ++i)
      if (!is_mask(program, program.inputs.size() + i) && (i + 1 == steps || below(8) == 0))
        program.outputs.push_back(static_cast<int>(i));
    if (program.outputs.empty())
      program.outputs = {0};
    return program;
  }

private:
  static constexpr std::size_t kSimple = 9, kAll = 17;

  static std::size_t last(const PointwiseProgram &program) {
    return program.inputs.size() + program.steps.size() - 1;
  }
  static bool has_values(const PointwiseProgram &program, std::size_t value) {
    return value >= program.inputs.size() || program.inputs[value].kind == Kind::values;
  }
  static bool is_mask(const PointwiseProgram &program, std::size_t value) {
    return value >= program.inputs.size() &&
           program.steps[value - program.inputs.size()].op == "aten::lt.Tensor";
  }

  /// Adds a random op of the first `kinds` ones, if a region can have it with these operands.
  void add_step(PointwiseProgram &program, std::size_t first, std::size_t second,
                std::size_t kinds) {
    const Ref a{static_cast<int>(first)}, b{static_cast<int>(second)};
    const std::array<ProgramStep, kAll> steps{{
        {"aten::add.Tensor", {a, b}},
        {"aten::mul.Scalar", {a, number()}},
        {"aten::sub.Tensor", {a, b}},
        {"aten::maximum", {a, b}},
        {"aten::clamp", {a, -1.5, 1.5}},
        {"aten::minimum", {a, b}},
        {"aten::add.Scalar", {a, number()}},
        {"aten::addcmul", {a, b, b, 0.3}},
        {"aten::leaky_relu", {a, 0.1}},
        {"aten::sin", {a}},
        {"aten::sigmoid", {a}},
        {"aten::tanh", {a}},
        {"aten::div.Tensor", {a, b}},
        {"aten::lerp.Scalar", {a, b, 0.7}},
        {"aten::silu", {a}},
        {"aten::reciprocal", {a}},
        {"aten::lt.Tensor", {a, b}},
    }};
    PointwiseProgram longer = program;
    longer.steps.push_back(steps[below(kinds)]);
    if (longer.steps.back().op == "aten::lt.Tensor")
      longer.steps.push_back({"aten::where.self", {Ref{static_cast<int>(last(longer))}, b, a}});
    if (plan_of(longer, at::kFloat))
      program = std::move(longer);
  }

  std::mt19937 random_;
};

at::Tensor values_for(std::int64_t n, c10::ScalarType dtype, int seed) {
  if (seed % 3 == 0)
    return full_range(n, dtype, seed);
  at::Generator random = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return at::randn({n}, random, at::TensorOptions(dtype));
}

/// Inputs of n values in rows of `period`, all kinds mixed.
std::vector<at::Tensor> inputs_for(const PointwiseProgram &program, std::int64_t rows,
                                   std::int64_t period, c10::ScalarType dtype, int seed) {
  std::vector<at::Tensor> inputs;
  for (const RegionInput &input : program.inputs) {
    ++seed;
    if (input.kind == Kind::values)
      inputs.push_back(values_for(rows * period, dtype, seed).view({rows, period}));
    else
      inputs.push_back(input.kind == Kind::one ? values_for(20, dtype, seed)[5]
                                               : values_for(period, dtype, seed));
  }
  return inputs;
}

void expect_same_as_eager(const PointwiseProgram &program, std::int64_t rows, std::int64_t period,
                          int seed) {
  for (const auto dtype : kDtypes) {
    const auto plan = plan_of(program, dtype);
    ASSERT_TRUE(plan);
    const auto inputs = inputs_for(program, rows, period, dtype, seed);
    const auto expected = by_eager(program, inputs);
    for (const RegionIsa isa : all_isas()) {
      SCOPED_TRACE(std::string(c10::toString(dtype)) +
                   (isa == RegionIsa::avx2 ? " AVX2" : " AVX512"));
      std::string why;
      const auto region = Region::compile(*plan, isa, why);
      ASSERT_NE(region, nullptr) << why;
      const auto found = by_region(*region, inputs, expected.size(), rows * period);
      for (std::size_t i = 0; i < expected.size(); ++i)
        expect_same_values(found[i], expected[i]);
    }
  }
}

TEST(RegionGraphs, ChainsOf150Ops) {
  for (unsigned seed = 0; seed < 8; ++seed)
    for (const std::int64_t n : {1, 9, 17, 63, 100, 1000, 4099}) {
      SCOPED_TRACE(std::to_string(seed) + ", n " + std::to_string(n));
      expect_same_as_eager(RandomProgram(seed).chain(150), 1, n, static_cast<int>(seed));
    }
}

TEST(RegionGraphs, RandomGraphsWithSeveralOutputs) {
  for (unsigned seed = 0; seed < 60; ++seed)
    for (const std::int64_t n : {1, 7, 33, 48, 95, 2048, 5001}) {
      SCOPED_TRACE(std::to_string(seed) + ", n " + std::to_string(n));
      const auto program = RandomProgram(seed).graph(10 + seed, std::vector<RegionInput>(3));
      expect_same_as_eager(program, 1, n, static_cast<int>(seed));
    }
}

TEST(RegionGraphs, RowsAndSingleValues) {
  for (unsigned seed = 0; seed < 40; ++seed)
    for (const auto &[rows, period] : {std::pair(5, 1), std::pair(3, 3), std::pair(1000, 7),
                                       std::pair(70, 64), std::pair(5, 2048), std::pair(4, 3001)}) {
      SCOPED_TRACE(std::to_string(seed) + ", rows of " + std::to_string(period));
      const auto program = RandomProgram(seed).graph(
          30, {{}, {Kind::row, period}, {Kind::one, 0}, {Kind::row, period}, {}});
      expect_same_as_eager(program, rows, period, static_cast<int>(seed));
    }
}

/// y = the sum of x + 1, x * 2, x + 3, ... in which all terms are computed first.
TEST(RegionGraphs, MoreValuesThanRegisters) {
  for (const int live : {2, 3, 5, 7, 8, 14, 15, 16, 31, 40, 100}) {
    SCOPED_TRACE(live);
    PointwiseProgram program{.inputs = {{}, {}}};
    for (int i = 0; i < live; ++i)
      program.steps.push_back(
          {i % 2 ? "aten::mul.Scalar" : "aten::add.Scalar", {Ref{i % 2}, 1.5 + i}});
    for (int i = 1; i < live; ++i)
      program.steps.push_back({i % 3 ? "aten::sub.Tensor" : "aten::maximum",
                               {Ref{2 + (i == 1 ? 0 : live + i - 2)}, Ref{2 + i}}});
    program.outputs = {static_cast<int>(program.steps.size()) - 1};
    for (const std::int64_t n : {5, 33, 1001})
      expect_same_as_eager(program, 1, n, live);
  }
}

TEST(RegionGraphs, MoreArraysThanAddressRegisters) {
  PointwiseProgram program{.inputs = std::vector<RegionInput>(30)};
  for (int i = 1; i < 30; ++i) {
    program.steps.push_back({"aten::add.Tensor", {Ref{i == 1 ? 0 : 28 + i}, Ref{i}}});
    program.outputs.push_back(i - 1);
  }
  for (const std::int64_t n : {5, 33, 1001})
    expect_same_as_eager(program, 1, n, 7);
}

TEST(RegionGraphs, NothingIsWrittenForNoValues) {
  const auto plan = plan_of(RandomProgram(1).chain(10), at::kFloat);
  for (const RegionIsa isa : all_isas()) {
    std::string why;
    const auto region = Region::compile(*plan, isa, why);
    ASSERT_NE(region, nullptr) << why;
    by_region(*region, {at::ones({1}), at::ones({1}), at::ones({1})}, 1, 0);
  }
}

/// The tail of eager's kernels is at the end of each thread's part.
TEST(RegionGraphs, SplitsAsEager) {
  const int before = at::get_num_threads();
  PointwiseProgram program{.inputs = {{}, {}},
                           .steps = {{"aten::maximum", {Ref{0}, Ref{1}}},
                                     {"aten::sigmoid", {Ref{2}}},
                                     {"aten::silu", {Ref{1}}}},
                           .outputs = {0, 1, 2}};
  for (const int threads : {2, 3, 5}) {
    at::set_num_threads(threads);
    for (const std::int64_t n : {32767, 32768, 32769, 90001, 200003})
      expect_same_as_eager(program, 1, n, threads);
  }
  at::set_num_threads(before);
}

TEST(RegionGraphs, OneRegionServesManyThreads) {
  if (all_isas().empty())
    GTEST_SKIP() << "no regions here";
  const auto program = RandomProgram(3).graph(40, std::vector<RegionInput>(2));
  const auto plan = plan_of(program, at::kFloat);
  std::string why;
  const auto region = Region::compile(*plan, why);
  ASSERT_NE(region, nullptr) << why;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 20; ++turn) {
        const auto inputs = inputs_for(program, 1, 3000 + i, at::kFloat, 100 * i + turn);
        const auto expected = by_eager(program, inputs);
        const auto found = by_region(*region, inputs, expected.size(), 3000 + i);
        for (std::size_t k = 0; k < expected.size(); ++k)
          expect_same_values(found[k], expected[k]);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

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
    const auto plan = plan_of(RandomProgram(1).chain(10), at::kFloat);
    const bool is_explained = !Region::compile(*plan, why) && why.starts_with("no machine code: ");
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
} // namespace tracehost::tape
