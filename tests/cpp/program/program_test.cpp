#include "program/places.h"
#include "program/program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

#include <thread>

namespace tracehost {
namespace {

namespace jit = torch::jit;

/// Nodes stand at lines 1, 2, ... of net.py.
std::shared_ptr<jit::Graph> parse(const std::string &text) {
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(text, graph.get());
  int line = 0;
  for (jit::Node *node : graph->nodes())
    node->setSourceRange(place_range("net.py:" + std::to_string(++line)));
  return graph;
}

std::vector<at::Tensor> run(const Program &program, const std::vector<at::Tensor> &inputs) {
  jit::Stack stack(inputs.begin(), inputs.end());
  program.run(stack);
  std::vector<at::Tensor> results;
  for (const auto &value : stack)
    results.push_back(value.toTensor());
  return results;
}

const char *const select = R"IR(graph(%x : Tensor, %i : Tensor):
  %dim : int = prim::Constant[value=0]()
  %y : Tensor = aten::neg(%x)
  %z : Tensor = aten::index_select(%y, %dim, %i)
  return (%z))IR";

const char *const index_list = R"IR(graph(%x : Tensor, %i : Tensor):
  %l : Tensor[] = prim::ListConstruct(%i)
  %z : Tensor = aten::index(%x, %l)
  return (%z))IR";

const char *const accumulate = R"IR(graph(%x : Tensor, %i : Tensor, %v : Tensor):
  %dim : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %z : Tensor = aten::index_add_(%x, %dim, %i, %v, %one)
  return (%z))IR";

const char *const no_grad = R"IR(graph(%x : Tensor, %i : Tensor):
  %off : bool = prim::Constant[value=0]()
  %on : bool = prim::Constant[value=1]()
  %dim : int = prim::Constant[value=0]()
  aten::set_grad_enabled(%off)
  %z : Tensor = aten::index_select(%x, %dim, %i)
  aten::set_grad_enabled(%on)
  return (%z))IR";

const at::Tensor x() { return at::arange(4, at::kFloat); }
at::Tensor at_place(std::int64_t place) { return at::full({1}, place, at::kLong); }

TEST(Program, RunsItsGraph) {
  const Program program(parse(select), "f", 1);
  EXPECT_TRUE(at::equal(run(program, {x(), at_place(2)})[0], at::full({1}, -2.0)));
  EXPECT_TRUE(at::equal(run(program, {x(), at_place(3)})[0], at::full({1}, -3.0)));
  EXPECT_EQ(program.ops(), 2) << "constants are no ops";
  EXPECT_EQ(program.graph().inputs().size(), 2);
}

TEST(Program, DropsOutputsPastTheBodys) {
  const std::string text = R"IR(graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::abs(%x)
  return (%a, %b))IR";
  EXPECT_EQ(run(Program(parse(text), "f", 2), {x()}).size(), 2);
  const auto results = run(Program(parse(text), "f", 1), {x()});
  ASSERT_EQ(results.size(), 1);
  EXPECT_TRUE(at::equal(results[0], -x()));
}

TEST(Program, ThrowsWhatTheOpThrewAndKnowsTheUsersLine) {
  const Program program(parse(select), "f", 1);
  std::string expected;
  try {
    at::index_select(-x(), 0, at_place(9));
  } catch (const c10::Error &e) {
    expected = e.what_without_backtrace();
  }
  ASSERT_FALSE(expected.empty());
  for (int repeat = 0; repeat < 2; ++repeat) {
    try {
      run(program, {x(), at_place(9)});
      FAIL() << "nothing was thrown";
    } catch (const c10::IndexError &e) {
      EXPECT_EQ(e.what_without_backtrace(), expected);
    }
    EXPECT_EQ(Program::take_failed_at(), "net.py:3");
    EXPECT_EQ(Program::take_failed_at(), "") << "asked once";
  }
  EXPECT_TRUE(at::equal(run(program, {x(), at_place(1)})[0], at::full({1}, -1.0)));
}

TEST(Program, ThrowsWhatAnOpWithAListThrew) {
  const Program program(parse(index_list), "f", 1);
  EXPECT_THROW(run(program, {x(), at_place(9)}), c10::IndexError);
  EXPECT_EQ(Program::take_failed_at(), "net.py:2");
}

TEST(Program, RunsAFailingOpOnce) {
  const Program program(parse(accumulate), "f", 1);
  const at::Tensor ours = x(), theirs = x();
  const at::Tensor places = at::cat({at_place(0), at_place(9)});
  EXPECT_ANY_THROW(theirs.index_add_(0, places, at::ones(2)));
  EXPECT_ANY_THROW(run(program, {ours, places, at::ones(2)}));
  EXPECT_TRUE(at::equal(ours, theirs));
}

TEST(Program, RestoresGradModeWhereAnOpFails) {
  const Program program(parse(no_grad), "f", 1);
  EXPECT_THROW(run(program, {x(), at_place(9)}), c10::IndexError);
  EXPECT_TRUE(at::GradMode::is_enabled());
  const at::Tensor leaf = x().requires_grad_();
  EXPECT_FALSE(run(program, {leaf, at_place(1)})[0].requires_grad());
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(Program, TellsThreadsFailuresApart) {
  const Program program(parse(select), "f", 1);
  EXPECT_ANY_THROW(run(program, {x(), at_place(9)}));
  std::thread([&] { EXPECT_EQ(Program::take_failed_at(), ""); }).join();
  EXPECT_EQ(Program::take_failed_at(), "net.py:3");
}

TEST(Program, RunsOnSeveralThreadsAtOnce) {
  const Program program(parse(select), "f", 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < 100; ++repeat)
        EXPECT_EQ(run(program, {x(), at_place(t % 4)})[0].item<float>(),
                  -static_cast<float>(t % 4));
    });
  for (auto &thread : threads)
    thread.join();
}

TEST(Program, IsLongWithManyOpsOrOnAnotherDevice) {
  EXPECT_FALSE(Program(parse(select), "f", 1).long_running());
  std::string many = "graph(%x0 : Tensor):\n";
  for (int i = 0; i < 40; ++i)
    many += "  %x" + std::to_string(i + 1) + " : Tensor = aten::neg(%x" + std::to_string(i) + ")\n";
  EXPECT_TRUE(Program(parse(many + "  return (%x40)"), "f", 1).long_running());
  EXPECT_TRUE(Program(parse(R"IR(graph(%x : Tensor):
  %d : Device = prim::Constant[value="cuda:0"]()
  %no : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %t : int = prim::Constant[value=6]()
  %y : Tensor = aten::to(%x, %d, %t, %no, %no, %n)
  return (%y))IR"),
                      "f", 1)
                  .long_running());
}

} // namespace
} // namespace tracehost
