#include "program/ops.h"
#include "program/pieces.h"
#include "program/program.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <gtest/gtest.h>

namespace tracehost {
namespace {

namespace jit = torch::jit;

int starts = 0;

/// Counts how often a start was run.
const jit::RegisterOperators counts({jit::Operator(
    "tracehost_tests::count_start() -> ()", [](jit::Stack &) { ++starts; },
    c10::AliasAnalysisKind::CONSERVATIVE)});

Program::Named program(const std::string &text, std::vector<std::string> inputs) {
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(text, graph.get());
  return {std::make_shared<Program>(std::move(graph), "f", 1), std::move(inputs)};
}

/// sin(x), cos(x) or x * w, for `n` of 1, 2 or 3. Each graph lacks what its own end does not need.
const char *const sine = R"IR(graph(%x : Tensor, %n : Tensor):
  %one : int = prim::Constant[value=1]()
  tracehost_tests::count_start()
  %s : Tensor = aten::sin(%x)
  %k : Scalar = aten::item(%n)
  tracehost::check_number(%k, %one)
  return (%s))IR";
const char *const cosine = R"IR(graph(%x : Tensor, %n : Tensor):
  %two : int = prim::Constant[value=2]()
  tracehost_tests::count_start()
  %c : Tensor = aten::cos(%x)
  %k : Scalar = aten::item(%n)
  tracehost::check_number(%k, %two)
  return (%c))IR";
const char *const product = R"IR(graph(%x : Tensor, %w : Tensor, %n : Tensor):
  %three : int = prim::Constant[value=3]()
  tracehost_tests::count_start()
  %k : Scalar = aten::item(%n)
  tracehost::check_number(%k, %three)
  %y : Tensor = aten::mul(%x, %w)
  return (%y))IR";

class PiecesTest : public testing::Test {
protected:
  PiecesTest() {
    Program::share_start({a, b, c});
    starts = 0;
  }
  static at::Tensor run(const Program::Named &named, jit::Stack stack, Begun *begun = nullptr) {
    named.program->run(stack, begun);
    return stack.back().toTensor();
  }
  static std::shared_ptr<Begun> fail(const Program::Named &named, const jit::Stack &stack) {
    try {
      run(named, stack);
    } catch (CheckFailed &check) {
      return check.take_begun();
    }
    ADD_FAILURE() << "no check failed";
    return nullptr;
  }
  static at::Tensor number(std::int64_t n) { return at::scalar_tensor(n, at::kLong); }

  const Program::Named a = program(sine, {"x", "n"}), b = program(cosine, {"x", "n"}),
                       c = program(product, {"x", "w", "n"});
  const at::Tensor x = at::arange(3.0), w = at::full({3}, 5.0);
};

TEST_F(PiecesTest, EachRunsByItself) {
  EXPECT_TRUE(run(a, {x, number(1)}).equal(x.sin()));
  EXPECT_TRUE(run(b, {x, number(2)}).equal(x.cos()));
  EXPECT_TRUE(run(c, {x, w, number(3)}).equal(x * w));
  EXPECT_EQ(starts, 3);
}

TEST_F(PiecesTest, AnotherGoesOnFromTheCheck) {
  const at::Tensor two = number(2), three = number(3);
  auto begun = fail(a, {x, two});
  ASSERT_NE(begun, nullptr);
  EXPECT_EQ(b.program->start(*begun), Program::Start::same);
  EXPECT_EQ(c.program->start(*begun), Program::Start::differs);
  EXPECT_TRUE(run(b, {x, two}, begun.get()).equal(x.cos()));
  begun = fail(b, {x, three});
  EXPECT_TRUE(run(c, {x, w, three}, begun.get()).equal(x * w));
  EXPECT_EQ(starts, 2);
}

TEST_F(PiecesTest, PiecesCountInTheMemoryOfAProgram) {
  const auto alone = program(sine, {"x", "n"});
  EXPECT_GT(a.program->bytes(), alone.program->bytes());
}

TEST_F(PiecesTest, OfAnotherTensorItRunsFromTheStart) {
  const auto begun = fail(a, {x, number(2)});
  EXPECT_TRUE(run(b, {w, number(2)}, begun.get()).equal(w.cos()));
  EXPECT_EQ(starts, 2);
}

TEST_F(PiecesTest, ARunGoesOnOnce) {
  const at::Tensor two = number(2);
  const auto begun = fail(a, {x, two});
  run(b, {x, two}, begun.get());
  EXPECT_EQ(b.program->start(*begun), Program::Start::other);
  EXPECT_TRUE(run(b, {x, two}, begun.get()).equal(x.cos()));
  EXPECT_EQ(starts, 2);
}

TEST_F(PiecesTest, AGraphOfNoTreeRunsFromItsStart) {
  const auto other = program(sine, {"x", "n"});
  EXPECT_EQ(fail(other, {x, number(2)}), nullptr);
  const auto begun = fail(a, {x, number(2)});
  EXPECT_EQ(other.program->start(*begun), Program::Start::other);
}

/// An op that reads what another graph has not is no part of a shared start.
TEST_F(PiecesTest, AnInputThatAnotherGraphLacks) {
  const char *const late = R"IR(graph(%x : Tensor, %w : Tensor, %n : Tensor):
  %four : int = prim::Constant[value=4]()
  tracehost_tests::count_start()
  %y : Tensor = aten::mul(%x, %w)
  %k : Scalar = aten::item(%n)
  tracehost::check_number(%k, %four)
  return (%y))IR";
  const auto d = program(late, {"x", "w", "n"});
  Program::share_start({a, b, d});
  EXPECT_TRUE(run(d, {x, w, number(4)}).equal(x * w));
  EXPECT_TRUE(run(a, {x, number(1)}).equal(x.sin()));
  const auto begun = fail(a, {x, number(4)});
  EXPECT_TRUE(run(d, {x, w, number(4)}, begun.get()).equal(x * w));
}

} // namespace
} // namespace tracehost
