#include "region/region.h"

#include "support/region_beside.h"

#include <array>
#include <cctype>
#include <cmath>

/// Each op as a region of its own beside eager's, on values of all kinds, at all kinds of length.

namespace tracehost::region {
namespace {

using Kind = RegionInput::Kind;
using StepArguments = std::vector<StepArgument>;

constexpr std::array<std::int64_t, 20> kSizes{1,  2,  3,  7,  8,  9,   15,   16,   17,   31,
                                              32, 33, 48, 63, 64, 100, 1000, 2049, 4127, 90000};
constexpr double kInfinity = INFINITY;

/// Steps over three inputs; the last one is the output.
struct OpCase {
  OpCase(std::initializer_list<ProgramStep> steps) : steps(steps) {}
  /// A region has no such op.
  OpCase &&not_for(std::vector<c10::ScalarType> dtypes) && {
    without = std::move(dtypes);
    return std::move(*this);
  }
  bool is_for(c10::ScalarType dtype) const {
    return std::find(without.begin(), without.end(), dtype) == without.end();
  }

  std::vector<ProgramStep> steps;
  std::vector<c10::ScalarType> without = {};
};
std::ostream &operator<<(std::ostream &out, const OpCase &op) { return out << op.steps[0].op; }

PointwiseProgram program_of(const OpCase &op, std::array<Kind, 3> kinds = {}) {
  PointwiseProgram program{.steps = op.steps, .outputs = {static_cast<int>(op.steps.size()) - 1}};
  for (const Kind kind : kinds)
    program.inputs.push_back({kind, 0});
  return program;
}

std::vector<OpCase> arithmetic() {
  std::vector<OpCase> cases;
  for (const std::string op : {"add", "sub", "mul", "div"}) {
    cases.push_back({{"aten::" + op + ".Tensor", {Ref{0}, Ref{1}}}});
    cases.push_back({{"aten::" + op + ".Tensor", {Ref{0}, Ref{0}}}});
    for (const double number : {0.1, -3.0, 0.0, -0.0, 1e-40, kInfinity})
      cases.push_back({{"aten::" + op + ".Scalar", {Ref{0}, number}}});
  }
  for (const double alpha : {1.0, -1.0, 0.3, 2.0, 0.0})
    for (const std::string op : {"add", "sub", "rsub"}) {
      cases.push_back({{"aten::" + op + ".Tensor", {Ref{0}, Ref{1}, alpha}}});
      OpCase &&scalar = {{"aten::" + op + ".Scalar", {Ref{0}, 0.7, alpha}}};
      cases.push_back(op == "rsub" || std::abs(alpha) == 1
                          ? std::move(scalar)
                          : std::move(scalar).not_for({at::kFloat, at::kDouble}));
    }
  for (const double value : {1.0, 0.3, -2.0}) {
    cases.push_back({{"aten::addcmul", {Ref{0}, Ref{1}, Ref{2}, value}}});
    cases.push_back({{"aten::addcdiv", {Ref{0}, Ref{1}, Ref{2}, value}}});
  }
  for (const double weight : {0.0, 0.3, 0.5, 0.7, -0.1, 0.999, 1.5})
    cases.push_back({{"aten::lerp.Scalar", {Ref{0}, Ref{1}, weight}}});
  for (const double exponent : {2.0, 3.0, -1.0, -2.0, 0.5, -0.5})
    cases.push_back({{"aten::pow.Tensor_Scalar", {Ref{0}, exponent}}});
  return cases;
}

std::vector<OpCase> choices() {
  std::vector<OpCase> cases;
  for (const std::string op : {"maximum", "minimum"}) {
    cases.push_back({{"aten::" + op, {Ref{0}, Ref{1}}}});
    cases.push_back({{"aten::" + op, {Ref{1}, Ref{0}}}});
    cases.push_back({{"aten::" + op, {Ref{0}, Ref{0}}}});
  }
  for (const double bound : {0.0, -0.0, 0.1, -kInfinity}) {
    cases.push_back({{"aten::clamp_min", {Ref{0}, bound}}});
    cases.push_back({{"aten::clamp_max", {Ref{0}, bound}}});
    cases.push_back({{"aten::clamp", {Ref{0}, bound}}});
    cases.push_back({{"aten::clamp", {Ref{0}, std::monostate(), bound}}});
    cases.push_back({{"aten::clamp", {Ref{0}, bound, 0.5}}});
    cases.push_back({{"aten::threshold", {Ref{0}, bound, 3.0}}});
    cases.push_back({{"aten::leaky_relu", {Ref{0}, bound}}});
    cases.push_back({{"aten::threshold_backward", {Ref{0}, Ref{1}, bound}}});
  }
  cases.push_back({{"aten::clamp", {Ref{0}, 2.0, -1.0}}});
  cases.push_back({{"aten::hardtanh", {Ref{0}, -1.0, 1.0}}});
  cases.push_back({{"aten::leaky_relu", {Ref{0}}}});
  for (const std::string op : {"lt", "le", "gt", "ge", "eq", "ne"}) {
    cases.push_back({{"aten::" + op + ".Tensor", {Ref{0}, Ref{1}}},
                     {"aten::where.self", {Ref{3}, Ref{0}, Ref{2}}}});
    cases.push_back({{"aten::" + op + ".Scalar", {Ref{0}, 0.1}},
                     {"aten::where.ScalarOther", {Ref{3}, Ref{1}, -2.0}}});
    cases.push_back({{"aten::" + op + ".Scalar", {Ref{0}, 0.0}},
                     {"aten::where.ScalarSelf", {Ref{3}, 0.5, Ref{0}}}});
  }
  cases.push_back({{"aten::leaky_relu_backward", {Ref{0}, Ref{1}, 0.1, false}}});
  return cases;
}

std::vector<OpCase> functions() {
  std::vector<OpCase> cases;
  for (const std::string op :
       {"neg",   "abs",     "relu",        "relu6",     "reciprocal", "rsqrt", "square",
        "floor", "sign",    "hardsigmoid", "hardswish", "ceil",       "trunc", "round",
        "sin",   "cos",     "tan",         "tanh",      "exp",        "log",   "sqrt",
        "erf",   "sigmoid", "silu",        "log1p",     "expm1",      "atan"})
    cases.push_back({{"aten::" + op, {Ref{0}}}});
  for (const std::string op : {"sigmoid_backward", "tanh_backward"})
    cases.push_back({{"aten::" + op, {Ref{0}, Ref{1}}}});
  cases.push_back(OpCase{{"aten::gelu", {Ref{0}, std::string("none")}}}.not_for({at::kFloat}));
  cases.push_back({{"aten::gelu", {Ref{0}, std::string("tanh")}}});
  return cases;
}

using Data = at::Tensor (*)(std::int64_t, c10::ScalarType, int);

class RegionOps : public ::testing::TestWithParam<OpCase> {
protected:
  static std::vector<at::Tensor> inputs(std::int64_t n, c10::ScalarType dtype,
                                        std::array<Kind, 3> kinds, Data data) {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 3; ++i)
      tensors.push_back(kinds[i] == Kind::one
                            ? at::scalar_tensor(0.7 - 1.3 * i, at::TensorOptions(dtype))
                            : data(n, dtype, static_cast<int>(n) + i));
    return tensors;
  }

  /// As far as a region can have the op with such inputs.
  static void expect_eagers_bits(const OpCase &op, std::array<Kind, 3> kinds, Data data,
                                 c10::ArrayRef<std::int64_t> sizes) {
    const PointwiseProgram program = program_of(op, kinds);
    for (const auto dtype : {at::kFloat, at::kDouble})
      if (const std::optional<RegionPlan> plan = plan_of(program, dtype))
        for (const RegionIsa isa : all_isas()) {
          std::string why;
          const auto region = Region::compile(*plan, isa, why);
          ASSERT_NE(region, nullptr) << why;
          for (const std::int64_t n : sizes) {
            SCOPED_TRACE(std::string(c10::toString(dtype)) +
                         (isa == RegionIsa::avx2 ? " AVX2 " : " AVX512 ") + std::to_string(n));
            const auto given = inputs(n, dtype, kinds, data);
            const at::Tensor expected = by_eager(program, given)[0];
            if (expected.numel() == n) // else no input has as many
              expect_same_values(by_region(*region, given, 1, n)[0], expected);
          }
        }
  }
};

TEST_P(RegionOps, CanBeInARegion) {
  for (const auto dtype : {at::kFloat, at::kDouble})
    EXPECT_EQ(plan_of(program_of(GetParam()), dtype).has_value(), GetParam().is_for(dtype));
}

TEST_P(RegionOps, HaveEagersBits) { expect_eagers_bits(GetParam(), {}, full_range, kSizes); }

TEST_P(RegionOps, HaveEagersBitsOfEqualOperands) {
  expect_eagers_bits(GetParam(), {}, few_values, {1, 7, 15, 16, 17, 31, 33, 63, 100, 2049});
}

TEST_P(RegionOps, HaveEagersBitsBesideOneValue) {
  constexpr auto values = Kind::values, one = Kind::one;
  for (const auto &kinds : {std::array{values, one, values}, std::array{one, values, values},
                            std::array{values, values, one}, std::array{values, one, one},
                            std::array{one, values, one}, std::array{one, one, values}}) {
    SCOPED_TRACE(::testing::PrintToString(kinds));
    expect_eagers_bits(GetParam(), kinds, full_range, {1, 15, 17, 63, 2049});
  }
}

std::string name_of(const ::testing::TestParamInfo<OpCase> &info) {
  std::string name = std::to_string(info.index) + "_" + info.param.steps[0].op.substr(6);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Arithmetic, RegionOps, ::testing::ValuesIn(arithmetic()), name_of);
INSTANTIATE_TEST_SUITE_P(Choices, RegionOps, ::testing::ValuesIn(choices()), name_of);
INSTANTIATE_TEST_SUITE_P(Functions, RegionOps, ::testing::ValuesIn(functions()), name_of);

} // namespace
} // namespace tracehost::region
