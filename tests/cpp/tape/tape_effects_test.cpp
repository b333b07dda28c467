#include "support/tape_beside.h"

#include <fmt/format.h>

/// Graphs that write to their inputs, and that draw.

namespace tracehost::tape {
namespace {

struct InPlace {
  const char *name;
  const char *node; ///< of %x, which it writes to, and %y
};

class InPlaceKernels : public testing::TestWithParam<InPlace> {};

TEST_P(InPlaceKernels, WriteWhatTheInterpreterWrites) {
  const std::string text = fmt::format(R"IR(graph(%x : Tensor, %y : Tensor, %n : float, %k : int):
  %one : int = prim::Constant[value=1]()
  %two : float = prim::Constant[value=2.5]()
  %no : bool = prim::Constant[value=0]()
  %z : Tensor = {}
  return (%z))IR",
                                       GetParam().node);
  at::manual_seed(3);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor zeros = at::zeros({5, 7}, dtype);
    const Beside graph(text, jit::Stack{zeros, zeros.clone(), 0.5, 3});
    ASSERT_TRUE(graph.tape) << graph.why;
    EXPECT_EQ(graph.tape->kernels(), 1U);
    for (const double number : {0.3, -7e30, 0.0}) {
      jit::Stack inputs{at::randn({5, 7}, dtype), at::randn({5, 7}, dtype), number, 16777217};
      const jit::Stack after = graph.expect_same_effects(inputs);
      EXPECT_EQ(after[0].toTensor()._version(), 1);
      EXPECT_EQ(after[1].toTensor()._version(), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tape, InPlaceKernels,
                         testing::Values(InPlace{"add", "aten::add_(%x, %y, %one)"},
                                         InPlace{"add_number", "aten::add_(%x, %two, %one)"},
                                         InPlace{"add_given", "aten::add_(%x, %n, %one)"},
                                         InPlace{"add_alpha", "aten::add_(%x, %y, %n)"},
                                         InPlace{"sub_alpha", "aten::sub_(%x, %y, %n)"},
                                         InPlace{"mul_integer", "aten::mul_(%x, %k)"},
                                         InPlace{"div", "aten::div_(%x, %n)"},
                                         InPlace{"relu", "aten::relu_(%x)"},
                                         InPlace{"sqrt", "aten::sqrt_(%x)"},
                                         InPlace{"copy", "aten::copy_(%x, %y, %no)"},
                                         InPlace{"lerp", "aten::lerp_(%x, %y, %n)"},
                                         InPlace{"addcmul", "aten::addcmul_(%x, %y, %y, %n)"},
                                         InPlace{"addcdiv", "aten::addcdiv_(%x, %y, %y, %n)"}),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(TapeEffects, ViewsOfInputsAreWritten) {
  const Beside graph(R"IR(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %r : Tensor = aten::select(%x, %zero, %one)
  %w : Tensor = aten::mul_(%r, %r)
  %y : Tensor = aten::neg(%x)
  return (%y, %x, %w))IR",
                     {at::ones({4, 3})});
  ASSERT_TRUE(graph.tape) << graph.why;
  graph.expect_same_effects({at::randn({4, 3})});
}

TEST(TapeEffects, ARunThatEndsEarlyLeavesNoTrace) {
  const Beside graph(R"IR(graph(%x : Tensor, %i : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %half : float = prim::Constant[value=0.5]()
  %yes : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %d : Tensor = aten::dropout(%x, %half, %yes)
  %w : Tensor = aten::add_(%x, %one, %one)
  %z : Tensor = aten::index_select(%d, %zero, %i)
  return (%z))IR",
                     {at::ones({4, 3}), at::zeros({2}, at::kLong)});
  ASSERT_TRUE(graph.tape) << graph.why;
  graph.expect_same_effects({at::randn({4, 3}), at::tensor({3, 1}, at::kLong)});
  const at::Tensor x = at::randn({4, 3}), state = Beside::generator();
  const jit::Stack stack{x.clone(), at::tensor({3, 4}, at::kLong)};
  jit::Stack outputs;
  EXPECT_FALSE(graph.tape->run(stack, outputs, nullptr));
  EXPECT_TRUE(outputs.empty());
  EXPECT_TRUE(stack[0].toTensor().equal(x));
  EXPECT_EQ(stack[0].toTensor()._version(), 0);
  EXPECT_TRUE(Beside::generator().equal(state));
}

TEST(TapeEffects, ARecordingDrawsNothingAndWritesNothing) {
  const at::Tensor x = at::ones({4}), state = Beside::generator();
  const Beside graph(R"IR(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %r : Tensor = aten::rand_like(%x, %none, %none, %none, %none, %none)
  %one : int = prim::Constant[value=1]()
  %w : Tensor = aten::add_(%x, %r, %one)
  return (%r))IR",
                     {x});
  ASSERT_TRUE(graph.tape) << graph.why;
  EXPECT_TRUE(x.equal(at::ones({4})));
  EXPECT_TRUE(Beside::generator().equal(state));
  for (int i = 0; i < 3; ++i)
    graph.expect_same_effects({at::randn({4})});
}

TEST(TapeEffects, ARunningMeanIsWritten) {
  const Beside graph(R"IR(graph(%x : Tensor, %m : Tensor, %v : Tensor):
  %none : NoneType = prim::Constant()
  %yes : bool = prim::Constant[value=1]()
  %half : float = prim::Constant[value=0.5]()
  %y : Tensor = aten::batch_norm(%x, %none, %none, %m, %v, %yes, %half, %half, %yes)
  return (%y))IR",
                     {at::randn({4, 3, 5}), at::zeros({3}), at::ones({3})});
  ASSERT_TRUE(graph.tape) << graph.why;
  const jit::Stack after =
      graph.expect_same_effects({at::randn({4, 3, 5}), at::zeros({3}), at::ones({3})});
  EXPECT_FALSE(after[1].toTensor().equal(at::zeros({3})));
}

TEST(TapeEffects, WhatIsWrittenSharesMemoryWithNoOtherInput) {
  const char *const text = R"IR(graph(%x : Tensor, %y : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %z : Tensor = aten::add_(%x, %y, %one)
  %u : Tensor = aten::add(%w, %y, %one)
  return (%u))IR";
  const Beside graph(text, {at::ones({3}), at::ones({3}), at::ones({3})});
  ASSERT_TRUE(graph.tape) << graph.why;
  const at::Tensor memory = at::ones({5}), other = at::ones({3});
  const auto holds = [&](const at::Tensor &x, const at::Tensor &y, const at::Tensor &w) {
    return graph.tape->guards().hold(stack_of({x, y, w}));
  };
  EXPECT_TRUE(holds(memory.slice(0, 0, 3), other, at::ones({3})));
  EXPECT_FALSE(holds(memory.slice(0, 0, 3), memory.slice(0, 2, 5), other));
  EXPECT_FALSE(holds(memory.slice(0, 0, 3), memory.slice(0, 2, 5), other));
  EXPECT_TRUE(holds(memory.slice(0, 0, 3), other, other));
  EXPECT_FALSE(holds(other, memory.slice(0, 0, 3), other));
  const Beside shared(text, {memory.slice(0, 0, 3), memory.slice(0, 2, 5), other});
  EXPECT_EQ(shared.why, "it writes, and its inputs share memory");
}

TEST(TapeEffects, AConstantIsNotWritten) {
  jit::Graph graph;
  jit::Value *x = graph.addInput(), *constant = graph.insertConstant(at::ones({3}));
  jit::Value *one = graph.insertConstant(1);
  jit::Node *add = graph.create(c10::Symbol::fromQualString("aten::add_"), {constant, x, one});
  graph.registerOutput(graph.insertNode(add)->output());
  std::string why;
  EXPECT_FALSE(Tape::record(graph, jit::Stack{at::ones({3})}, why));
  EXPECT_EQ(why, "aten::add_ writes to a constant");
}

} // namespace
} // namespace tracehost::tape
