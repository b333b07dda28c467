#include "support/tape_beside.h"

/// What a tape has besides kernels: numbers, checks, own memory that is written, views as outputs.

namespace tracehost::tape {
namespace {

TEST(TapeNumbers, WhatACallReadsIsInASlot) {
  const Beside graph(R"IR(graph(%x : Tensor, %k : int):
  %none : NoneType = prim::Constant()
  %s : Tensor = aten::sum(%x, %none)
  %n : Scalar = aten::item(%s)
  %m : Scalar = tracehost::py_add(%n, %k)
  %y : Tensor = aten::mul(%x, %m)
  %z : Tensor = aten::relu(%y)
  return (%z, %m, %k))IR",
                     jit::Stack{at::ones({3}), 1});
  ASSERT_TRUE(graph.tape) << graph.why;
  EXPECT_EQ(graph.tape->steps(), 5U);
  graph.expect_same(jit::Stack{at::ones({3}), 2});
  graph.expect_same(jit::Stack{at::arange(3, at::kFloat), -4});
}

TEST(TapeNumbers, ANumberDoesNotPassAsTheRecordingsCast) {
  // The 0-dim tensor is int64: a kernel would read the memory of its cast to float.
  const Beside graph(R"IR(graph(%x : Tensor, %k : int):
  %t : Tensor = tracehost::py_tensor(%k)
  %y : Tensor = aten::mul(%x, %t)
  return (%y))IR",
                     jit::Stack{at::ones({3}), 2});
  ASSERT_TRUE(graph.tape) << graph.why;
  graph.expect_same(jit::Stack{at::ones({3}), 12});
}

TEST(TapeNumbers, ACheckThatFailsEndsTheRunEarly) {
  const Beside graph(R"IR(graph(%x : Tensor):
  %three : int = prim::Constant[value=3]()
  %none : NoneType = prim::Constant()
  %s : Tensor = aten::sum(%x, %none)
  %n : Scalar = aten::item(%s)
  tracehost::check_number(%n, %three)
  %y : Tensor = aten::neg(%x)
  return (%y))IR",
                     {at::ones({3}, at::kLong)});
  ASSERT_TRUE(graph.tape) << graph.why;
  graph.expect_same({at::tensor({0, 1, 2}, at::kLong)});
  const jit::Stack stack{at::zeros({3}, at::kLong)};
  jit::Stack outputs;
  EXPECT_FALSE(graph.tape->run(stack, outputs, nullptr));
  EXPECT_TRUE(outputs.empty());
  EXPECT_THROW(graph.by_interpreter(stack), CheckFailed);
}

TEST(TapeNumbers, OtherSizesThanTheRecordingsEndTheRunEarly) {
  const Beside graph(R"IR(graph(%x : Tensor):
  %i : Tensor = aten::nonzero(%x)
  %y : Tensor = aten::neg(%i)
  return (%y))IR",
                     {at::tensor({0.F, 1.F, 2.F})});
  ASSERT_TRUE(graph.tape) << graph.why;
  graph.expect_same({at::tensor({3.F, 0.F, 2.F})});
  const jit::Stack stack{at::ones({3})};
  jit::Stack outputs;
  EXPECT_FALSE(graph.tape->run(stack, outputs, nullptr));
  EXPECT_TRUE(outputs.empty());
}

TEST(TapeMemory, WhatTheGraphMadeIsWritten) {
  const Beside graph(R"IR(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %a : Tensor = aten::mul(%x, %y)
  %r : Tensor = aten::select(%a, %zero, %one)
  %w : Tensor = aten::add_(%r, %one, %one)
  %b : Tensor = aten::neg(%a)
  %c : Tensor = aten::relu_(%b)
  %d : Tensor = aten::add(%c, %a, %one)
  return (%d, %a, %c, %w))IR",
                     {at::ones({2, 3}), at::ones({2, 3})});
  ASSERT_TRUE(graph.tape) << graph.why;
  graph.expect_same({at::randn({2, 3}), at::randn({2, 3})});
  const Tensors found = graph.by_tape(Tensors{at::randn({2, 3}), at::randn({2, 3})});
  EXPECT_TRUE(found[3]._base().is_same(found[1]));
}

TEST(TapeOutputs, ViewsAreMadeOfTheirBases) {
  const Beside graph(R"IR(graph(%x : Tensor, %i : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %t : Tensor = aten::t(%x)
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::t(%a)
  %c : Tensor = aten::select(%b, %zero, %one)
  %s : Tensor = aten::index_select(%a, %zero, %i)
  %l : Tensor[] = aten::unbind(%s, %zero)
  %p : Tensor, %q : Tensor = prim::ListUnpack(%l)
  return (%t, %b, %c, %a, %q, %b))IR",
                     {at::ones({2, 3}), at::zeros({2}, at::kLong)});
  ASSERT_TRUE(graph.tape) << graph.why;
  const Tensors inputs{at::randn({2, 3}), at::tensor({1, 0}, at::kLong)};
  graph.expect_same(stack_of(inputs));
  const Tensors found = graph.by_tape(inputs);
  EXPECT_TRUE(found[0]._base().is_same(inputs[0]));
  EXPECT_TRUE(found[1]._base().is_same(found[3]));
  EXPECT_TRUE(found[2]._base().is_same(found[3]));
  EXPECT_TRUE(found[5].is_same(found[1]));
}

TEST(TapeModes, GradModeIsLeftAsTheGraphLeavesIt) {
  const Beside graph(R"IR(graph(%x : Tensor):
  %no : bool = prim::Constant[value=0]()
  aten::set_grad_enabled(%no)
  %y : Tensor = aten::neg(%x)
  return (%y))IR",
                     {at::ones({3})});
  ASSERT_TRUE(graph.tape) << graph.why;
  EXPECT_TRUE(at::GradMode::is_enabled());
  graph.by_tape(Tensors{at::ones({3})});
  EXPECT_FALSE(at::GradMode::is_enabled());
  at::GradMode::set_enabled(true);
}

} // namespace
} // namespace tracehost::tape
