#include "support/tape_beside.h"

#include "tape/blocks.h"

/// Branches and loops on a tape.

namespace tracehost::tape {
namespace {

/// A graph with blocks, as Tapes has it.
struct WithBlocks {
  explicit WithBlocks(const char *text, void (*interruptible)() = nullptr)
      : graph(parse(text)), tapes(*graph, interruptible), program(parse(text), "f", 1) {}

  at::Tensor run(const jit::Stack &inputs) {
    jit::Stack stack = inputs;
    served = tapes.run(stack);
    if (!served)
      program.run(stack);
    return stack.back().toTensor();
  }

  std::shared_ptr<jit::Graph> graph;
  Tapes tapes;
  Program program;
  bool served = false;
};

const char *const kLoop = R"IR(graph(%x : Tensor, %n : int):
  %yes : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::neg(%x)
  %r : Tensor = prim::Loop(%n, %yes, %y)
    block0(%i : int, %c : Tensor):
      %d : Tensor = aten::mul(%c, %x)
      %e : Tensor = aten::add(%d, %i, %one)
      -> (%yes, %e)
  %z : Tensor = aten::neg(%r)
  return (%z))IR";

TEST(TapeBlocks, ALoopRunsAsOftenAsItsCallSays) {
  WithBlocks graph(kLoop);
  for (int turns = 0; turns < 12; ++turns) {
    const at::Tensor x = at::randn({3});
    at::Tensor expected = -x;
    for (int i = 0; i < turns; ++i)
      expected = expected * x + i;
    EXPECT_TRUE(graph.run({x, turns}).equal(-expected)) << turns;
    EXPECT_EQ(graph.served, turns >= 2) << turns;
  }
}

TEST(TapeBlocks, ALoopWithoutATurnGivesWhatItWasGiven) {
  WithBlocks graph(R"IR(graph(%x : Tensor, %n : int):
  %yes : bool = prim::Constant[value=1]()
  %y : Tensor = aten::neg(%x)
  %r : Tensor = prim::Loop(%n, %yes, %y)
    block0(%i : int, %c : Tensor):
      %d : Tensor = aten::mul(%c, %x)
      -> (%yes, %d)
  return (%r))IR");
  for (const int turns : {1, 1, 1, 0, 2, 0, 1})
    EXPECT_TRUE(graph.run({at::full({2}, 2.), turns}).equal(-at::full({2}, 2.).pow(turns + 1)));
}

struct Stopped {};

TEST(TapeBlocks, ALoopIsInterrupted) {
  static int asked = 0;
  WithBlocks graph(kLoop, [] {
    if (++asked > 1000)
      throw Stopped();
  });
  for (int i = 0; i < 4; ++i)
    graph.run({at::ones({3}), 2});
  ASSERT_TRUE(graph.served);
  EXPECT_THROW(graph.run({at::ones({3}), std::int64_t{1} << 40}), Stopped);
  EXPECT_GT(asked, 1000);
}

TEST(TapeBlocks, ACheckInABlockEndsTheRunEarly) {
  WithBlocks graph(R"IR(graph(%x : Tensor, %flag : bool):
  %three : int = prim::Constant[value=3]()
  %none : NoneType = prim::Constant()
  %r : Tensor = prim::If(%flag)
    block0():
      %s : Tensor = aten::sum(%x, %none)
      %n : Scalar = aten::item(%s)
      tracehost::check_number(%n, %three)
      %a : Tensor = aten::neg(%x)
      -> (%a)
    block1():
      %b : Tensor = aten::relu(%x)
      -> (%b)
  return (%r))IR");
  const at::Tensor threes = at::ones({3}, at::kLong);
  for (int i = 0; i < 6; ++i)
    EXPECT_TRUE(graph.run({threes, i % 2 == 0}).equal(i % 2 == 0 ? -threes : threes));
  EXPECT_TRUE(graph.served);
  EXPECT_THROW(graph.run({threes * 2, true}), CheckFailed);
  EXPECT_TRUE(graph.run({threes * 2, false}).equal(threes * 2));
}

} // namespace
} // namespace tracehost::tape
