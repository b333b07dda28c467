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
    Operands operands(inputs);
    served = tapes.run(operands);
    if (!served)
      program.run(operands);
    return operands[0].toTensor();
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

/// The block of the `if` ends its runs early, so libtorch's interpreter runs it.
TEST(TapeBlocks, ALoopInABlockThatTheInterpreterRunsIsInterrupted) {
  static int asked = 0, most = 1 << 30;
  WithBlocks graph(R"IR(graph(%x : Tensor, %flag : bool, %n : int):
  %yes : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %r : Tensor = prim::If(%flag)
    block0():
      %i : Tensor = aten::nonzero(%x)
      %s : Tensor = aten::sum(%i, %none)
      %l : Tensor = prim::Loop(%n, %yes, %s)
        block0(%k : int, %c : Tensor):
          %d : Tensor = aten::neg(%c)
          -> (%yes, %d)
      -> (%l)
    block1():
      %b : Tensor = aten::sum(%x, %none)
      -> (%b)
  return (%r))IR",
                   [] {
                     if (++asked > most)
                       throw Stopped();
                   });
  const auto given = [](int ones) { return at::cat({at::ones({ones}), at::zeros({9 - ones})}); };
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(graph.run({given(i % 9), true, 3}).item().toInt(), -((i % 9) * (i % 9 - 1) / 2));
  ASSERT_TRUE(graph.served);
  asked = 0;
  most = 1000;
  EXPECT_THROW(graph.run({given(4), true, std::int64_t{1} << 40}), Stopped);
  EXPECT_GT(asked, 1000);
}

TEST(TapeBlocks, WritesOfABlockToWhatItMadeAreCounted) {
  WithBlocks graph(R"IR(graph(%x : Tensor, %flag : bool):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = prim::If(%flag)
    block0():
      %a : Tensor = aten::neg(%x)
      %w : Tensor = aten::add_(%a, %x, %one)
      %v : Tensor = aten::mul_(%w, %x)
      -> (%v)
    block1():
      %b : Tensor = aten::relu(%x)
      -> (%b)
  return (%r))IR");
  for (int i = 0; i < 12; ++i) {
    const bool flag = i % 3 != 0;
    const at::Tensor x = at::randn({3}), y = graph.run({x, flag});
    EXPECT_TRUE(y.equal(flag ? (-x).add_(x).mul_(x) : x.relu())) << i;
    EXPECT_EQ(y._version(), flag ? 2 : 0) << i;
  }
  EXPECT_TRUE(graph.served);
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

const char *const kWritesOutside = R"IR(graph(%x : Tensor, %n : int):
  %yes : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::neg(%x)
  %r : int = prim::Loop(%n, %yes, %one)
    block0(%i : int, %c : int):
      %d : Tensor = aten::add_(%y, %x, %one)
      %e : Tensor = aten::neg_(%x)
      -> (%yes, %c)
  return (%y))IR";

TEST(TapeBlocks, ALoopCountsItsWritesToWhatLiesAroundIt) {
  WithBlocks graph(kWritesOutside);
  for (int turns = 0; turns < 12; ++turns) {
    const at::Tensor x = at::randn({3}), before = x.clone();
    const auto version = x._version(); // of randn()
    const at::Tensor y = graph.run({x, turns});
    EXPECT_TRUE(y.equal(turns % 2 == 0 ? -before : -before + before)) << turns;
    EXPECT_TRUE(x.equal(turns % 2 == 0 ? before : -before)) << turns;
    EXPECT_EQ(y._version(), turns);
    EXPECT_EQ(x._version() - version, turns);
    EXPECT_EQ(graph.served, turns >= 2) << turns;
  }
}

TEST(TapeBlocks, ABlockThatChangesSizesOfWhatLiesAroundItHasNoTape) {
  WithBlocks graph(R"IR(graph(%x : Tensor, %some : bool):
  %zero : int = prim::Constant[value=0]()
  %y : Tensor = aten::neg(%x)
  %r : int = prim::If(%some)
    block0():
      %d : Tensor = aten::squeeze_(%y, %zero)
      -> (%zero)
    block1():
      -> (%zero)
  return (%y))IR");
  for (int i = 0; i < 4; ++i)
    graph.run({at::ones({1, 3}), false});
  EXPECT_EQ(graph.tapes.describe(), "the interpreter: in a loop or a branch: aten::squeeze_ writes "
                                    "to what lies outside");
}

} // namespace
} // namespace tracehost::tape
