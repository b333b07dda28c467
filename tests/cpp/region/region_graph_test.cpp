#include "region/region.h"

#include "support/region_beside.h"

#include <ATen/Parallel.h>

#include <random>
#include <thread>

/// Regions of many ops beside eager's ops.

namespace tracehost::region {
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
                                       std::pair(70, 64), std::pair(5, 2048), std::pair(4, 3001),
                                       std::pair(2, 4095)}) { // a tile ends behind its first value
      SCOPED_TRACE(std::to_string(seed) + ", rows of " + std::to_string(period));
      const auto program = RandomProgram(seed).graph(
          30, {{}, {Kind::row, period}, {Kind::one, 0}, {Kind::row, period}, {}});
      expect_same_as_eager(program, rows, period, static_cast<int>(seed));
    }
}

/// y = a - b - c ..., in which all terms are computed first.
PointwiseProgram all_terms_first(int terms) {
  PointwiseProgram program{.inputs = {{}, {}}};
  for (int i = 0; i < terms; ++i)
    program.steps.push_back(
        {i % 2 ? "aten::mul.Scalar" : "aten::add.Scalar", {Ref{i % 2}, 1.5 + i}});
  for (int i = 1; i < terms; ++i)
    program.steps.push_back({i % 3 ? "aten::sub.Tensor" : "aten::maximum",
                             {Ref{2 + (i == 1 ? 0 : terms + i - 2)}, Ref{2 + i}}});
  program.outputs = {static_cast<int>(program.steps.size()) - 1};
  return program;
}

TEST(RegionGraphs, MoreValuesThanRegisters) {
  for (const int terms : {2, 3, 5, 7, 8, 14, 15, 16, 31, 40, 200})
    for (const std::int64_t n : {5, 33, 1001}) {
      SCOPED_TRACE(terms);
      expect_same_as_eager(all_terms_first(terms), 1, n, terms);
    }
}

TEST(RegionGraphs, MoreValuesThanTheStackHas) {
  for (const RegionIsa isa : all_isas()) {
    std::string why;
    EXPECT_EQ(Region::compile(*plan_of(all_terms_first(2000), at::kFloat), isa, why), nullptr);
    EXPECT_NE(why.find("too much of the stack"), std::string::npos) << why;
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

} // namespace
} // namespace tracehost::region
