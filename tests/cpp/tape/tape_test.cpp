#include "tape/tape.h"

#include "support/tape_beside.h"
#include "tape/kernels.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

/// Tapes beside the interpreter: the bits are the same, on other data than the recording had.

namespace tracehost::tape {
namespace {

/// NaN, infinities, denormals, both zeros, large and small numbers, and random ones.
at::Tensor full_range(at::IntArrayRef sizes, at::ScalarType dtype) {
  at::manual_seed(1);
  at::Tensor t = at::randn(sizes, dtype) * at::pow(10, at::randint(-30, 30, sizes, dtype));
  const double special[] = {std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            0.0,
                            -0.0,
                            1e-40,
                            -1e-310,
                            1.0,
                            -1.0,
                            88.8,
                            0.5};
  at::Tensor flat = t.view({-1});
  for (std::int64_t i = 0; i < flat.numel(); i += 3)
    flat[i].fill_(special[static_cast<std::size_t>(i / 3) % std::size(special)]);
  return t;
}

struct Op {
  const char *name;
  const char *more; ///< arguments behind the first
};

class Kernels : public testing::TestWithParam<Op> {};

TEST_P(Kernels, HaveEagersBitsOnOtherDataThanTheRecordings) {
  const auto [name, more] = GetParam();
  const std::string text = fmt::format(R"IR(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %number : float = prim::Constant[value=0.3]()
  %z : Tensor = {}(%x{})
  return (%z))IR",
                                       name, more);
  for (const auto dtype : {at::kFloat, at::kDouble})
    for (const std::vector<std::int64_t> &sizes :
         {std::vector<std::int64_t>{1}, {3, 3}, {33, 17}, {2, 5, 67}}) {
      const at::Tensor zeros = at::zeros(sizes, dtype);
      const Beside contiguous(text, {zeros, zeros.clone()});
      ASSERT_TRUE(contiguous.tape) << contiguous.why;
      EXPECT_EQ(contiguous.tape->kernels(), 1U) << name;
      const at::Tensor x = full_range(sizes, dtype);
      contiguous.expect_same({x, x.flip(0)});
      const at::Tensor turned = x.transpose(0, -1);
      const Beside strided(text, {at::zeros_like(turned), zeros.transpose(0, -1)});
      strided.expect_same({turned, x.flip(0).transpose(0, -1)});
    }
}

INSTANTIATE_TEST_SUITE_P(
    Ops, Kernels,
    testing::Values(Op{"aten::add", ", %y, %one"}, Op{"aten::add", ", %number, %one"},
                    Op{"aten::sub", ", %y, %one"}, Op{"aten::sub", ", %number, %one"},
                    Op{"aten::mul", ", %y"}, Op{"aten::mul", ", %number"}, Op{"aten::div", ", %y"},
                    Op{"aten::div", ", %number"}, Op{"aten::maximum", ", %y"},
                    Op{"aten::minimum", ", %y"}, Op{"aten::relu", ""}, Op{"aten::neg", ""},
                    Op{"aten::abs", ""}, Op{"aten::sin", ""}, Op{"aten::cos", ""},
                    Op{"aten::tanh", ""}, Op{"aten::sigmoid", ""}, Op{"aten::exp", ""},
                    Op{"aten::log", ""}, Op{"aten::sqrt", ""}, Op{"aten::rsqrt", ""},
                    Op{"aten::reciprocal", ""}, Op{"aten::erf", ""}, Op{"aten::floor", ""},
                    Op{"aten::ceil", ""}, Op{"aten::log1p", ""}, Op{"aten::expm1", ""},
                    Op{"aten::silu", ""}, Op{"aten::pow", ", %number"}),
    [](const auto &info) {
      std::string name(info.param.name + 6);
      for (const char c : std::string_view(info.param.more))
        name += std::isalpha(c) ? std::string(1, c) : std::string();
      return name;
    });

TEST(Tape, ViewsCostNothingAndMemoryIsUsedAgain) {
  const Beside graph(R"IR(graph(%x : Tensor, %w : Tensor, %b : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::linear(%x, %w, %b)
  %t : Tensor = aten::transpose(%a, %zero, %one)
  %u : Tensor = aten::tanh(%t)
  %v : Tensor = aten::add(%u, %t, %one)
  %s : Tensor = aten::select(%v, %zero, %one)
  %r : Tensor = aten::relu(%s)
  return (%r, %x))IR",
                     {at::zeros({5, 7}), at::zeros({6, 7}), at::zeros({6})});
  ASSERT_TRUE(graph.tape) << graph.why;
  EXPECT_EQ(graph.tape->steps(), 4U);
  EXPECT_EQ(graph.tape->kernels(), 4U);
  EXPECT_EQ(graph.tape->bytes(), 3 * 5 * 6 * sizeof(float));
  for (int i = 0; i < 3; ++i) {
    const Tensors inputs{at::randn({5, 7}), at::randn({6, 7}), at::randn({6})};
    graph.expect_same(stack_of(inputs));
    EXPECT_TRUE(graph.by_tape(inputs)[1].is_same(inputs[0]));
  }
}

TEST(Tape, ResultsOfCalledOpsAreHandedOut) {
  const Beside graph(R"IR(graph(%x : Tensor, %i : Tensor):
  %zero : int = prim::Constant[value=0]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::index_select(%a, %zero, %i)
  %c : Tensor = aten::neg(%b)
  return (%c, %b, %c))IR",
                     {at::zeros({4, 3}), at::zeros({2}, at::kLong)});
  ASSERT_TRUE(graph.tape) << graph.why;
  EXPECT_EQ(graph.tape->steps(), 3U);
  EXPECT_EQ(graph.tape->kernels(), 2U);
  const Tensors inputs{at::randn({4, 3}), at::tensor({3, 1}, at::kLong)};
  graph.expect_same(stack_of(inputs));
  const Tensors found = graph.by_tape(inputs);
  EXPECT_TRUE(found[0].is_same(found[2]));
}

TEST(Tape, AViewThatAnOpGivesIsAView) {
  const Beside graph(R"IR(graph(%x : Tensor, %y : Tensor):
  %none : NoneType = prim::Constant()
  %equation : str = prim::Constant[value="ij,jk->ki"]()
  %xs : Tensor[] = prim::ListConstruct(%x, %y)
  %a : Tensor = aten::einsum(%equation, %xs, %none)
  %b : Tensor = aten::t(%a)
  return (%a, %b))IR",
                     {at::zeros({4, 3}), at::zeros({3, 5})});
  ASSERT_TRUE(graph.tape) << graph.why;
  graph.expect_same({at::randn({4, 3}), at::randn({3, 5})});
  const Tensors found = graph.by_tape(Tensors{at::randn({4, 3}), at::randn({3, 5})});
  EXPECT_TRUE(found[0].is_view());
  EXPECT_TRUE(found[1]._base().is_same(found[0]._base()));
}

struct Without {
  const char *why;
  const char *nodes;
};

class NoTape : public testing::TestWithParam<Without> {};

TEST_P(NoTape, SaysWhy) {
  const Beside graph(fmt::format(R"IR(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %half : float = prim::Constant[value=0.5]()
  %yes : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
{}
  return (%z))IR",
                                 GetParam().nodes),
                     {at::ones({3, 3}), at::ones({3, 3})});
  EXPECT_FALSE(graph.tape);
  EXPECT_EQ(graph.why, GetParam().why);
}

INSTANTIATE_TEST_SUITE_P(
    Tape, NoTape,
    testing::Values(
        Without{"aten::unsqueeze_ changes sizes",
                "  %a : Tensor = aten::neg(%x)\n  %z : Tensor = aten::unsqueeze_(%a, %one)"},
        Without{"aten::requires_grad_",
                "  %a : Tensor = aten::neg(%x)\n  %z : Tensor = aten::requires_grad_(%a, %yes)"},
        Without{"an output that is a view whose place depends on a number",
                "  %s : Tensor = aten::sum(%x, %none)\n  %n : int = aten::Int(%s)\n"
                "  %o : int = aten::remainder(%n, %one)\n"
                "  %z : Tensor = aten::narrow(%x, %one, %o, %one)"},
        Without{"aten::is_leaf reads a value",
                "  %p : bool = aten::is_leaf(%x)\n  %z : Tensor = aten::neg(%x)"},
        Without{"an output that is a view, in a graph that switches grad mode",
                "  aten::set_grad_enabled(%yes)\n  %z : Tensor = aten::t(%x)"}),
    [](const auto &info) { return std::to_string(info.index); });

TEST(Guards, ACallIsAsItsRecordingOrHasNoTape) {
  const Tensors inputs{at::ones({4, 3})};
  Guards guards(stack_of(inputs));
  const auto holds = [&](const at::Tensor &t) { return guards.hold(stack_of({t})); };
  EXPECT_TRUE(holds(at::zeros({4, 3})));
  EXPECT_FALSE(holds(at::zeros({3, 4})));
  EXPECT_FALSE(holds(at::zeros({3, 4}).t()));
  EXPECT_FALSE(holds(at::zeros({4, 3}, at::kDouble)));
  EXPECT_FALSE(holds(at::zeros({4, 3}).set_requires_grad(true)));
  at::Tensor bytes = at::zeros({4 * 3 * 4 + 1}, at::kByte);
  EXPECT_FALSE(holds(at::from_blob(bytes.data_ptr<std::uint8_t>() + 1, {4, 3})));
  EXPECT_TRUE(Guards::can_be_recorded(stack_of(inputs)));
  EXPECT_FALSE(Guards::can_be_recorded(stack_of({at::zeros({3}).to_sparse()})));
  EXPECT_FALSE(Guards::can_be_recorded({c10::IValue("text")}));
}

TEST(Guards, WhatRequiresGradHasATapeOfItsOwn) {
  const auto inputs = stack_of({at::ones({3}).set_requires_grad(true)});
  Guards guards(inputs);
  EXPECT_TRUE(guards.hold(inputs));
  EXPECT_FALSE(guards.hold(stack_of({at::ones({3})})));
}

TEST(Guards, NumbersAreOfTheSameType) {
  Guards guards(jit::Stack{1, 2.5, true, c10::IValue()});
  EXPECT_TRUE(guards.hold(jit::Stack{7, 0.5, false, c10::IValue()}));
  EXPECT_FALSE(guards.hold(jit::Stack{7.0, 0.5, false, c10::IValue()}));
  EXPECT_FALSE(guards.hold(jit::Stack{7, 1, false, c10::IValue()}));
  EXPECT_FALSE(guards.hold(jit::Stack{7, 0.5, false, false}));
  EXPECT_FALSE(guards.hold(jit::Stack{7, 0.5, false, "text"}));
}

TEST(Guards, SettingsOfTheThreadAndTheProcess) {
  const Settings before = Settings::now();
  EXPECT_EQ(before, Settings::now());
  EXPECT_TRUE(before.are_plain());
  {
    const at::AutoGradMode other(!before.grad);
    EXPECT_NE(before, Settings::now());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(Settings::now().are_plain());
    EXPECT_NE(before, Settings::now());
  }
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_FALSE(Settings::now().are_plain());
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::globalContext().setUserEnabledMkldnn(false);
  EXPECT_NE(before, Settings::now());
  at::globalContext().setUserEnabledMkldnn(true);
  at::globalContext().setDeterministicAlgorithms(true, false);
  EXPECT_NE(before, Settings::now());
  at::globalContext().setDeterministicAlgorithms(false, false);
  if (at::globalContext().setFlushDenormal(true)) {
    EXPECT_NE(before, Settings::now());
    at::globalContext().setFlushDenormal(false);
  }
  EXPECT_EQ(before, Settings::now());
}

} // namespace
} // namespace tracehost::tape
