#include "program/checks.h"
#include "program/places.h"
#include "program/program.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tracehost {
namespace {

namespace jit = torch::jit;
using Serves = Checks::Serves;

/// A check behind an op: `line` of net.py, the input that it reads, the number that it expects.
struct Checked {
  int line;
  std::string input;
  std::int64_t expected;
};

/// A graph of two inputs with those checks. `counters`: checks at its start.
std::shared_ptr<Program> program(const std::vector<Checked> &checks,
                                 const std::vector<Checked> &counters = {}) {
  std::string text = "graph(%m : Tensor, %n : Tensor):\n";
  int count = 0;
  std::vector<int> lines;
  const auto add = [&](const Checked &one) {
    text += fmt::format("  %e{0} : int = prim::Constant[value={1}]()\n"
                        "  %k{0} : Scalar = aten::item(%{2})\n"
                        "  tracehost::check_number(%k{0}, %e{0})\n",
                        count++, one.expected, one.input);
    lines.push_back(one.line);
  };
  for (const Checked &one : counters)
    add(one);
  text += "  %y : Tensor = aten::exp(%m)\n";
  for (const Checked &one : checks)
    add(one);
  text += "  return (%y)";
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(text, graph.get());
  auto line = lines.begin();
  for (jit::Node *node : graph->nodes())
    if (is_check(node->kind().toQualString()))
      node->setSourceRange(place_range(fmt::format("net.py:{}", *line++)));
  return std::make_shared<Program>(std::move(graph), "f", 1);
}

at::Tensor number(std::int64_t n) { return at::scalar_tensor(n, at::kLong); }

/// What a run with these inputs finds; its check fails.
Found found(const Program &program, std::int64_t m, std::int64_t n) {
  try {
    jit::Stack stack{number(m), number(n)};
    program.run(stack);
  } catch (const CheckFailed &check) {
    return check.found();
  }
  ADD_FAILURE() << "no check failed";
  return {};
}

TEST(Checks, TheNumberChooses) {
  const auto one = program({{3, "m", 1}}), two = program({{3, "m", 2}}),
             three = program({{3, "m", 3}});
  const Found at = found(*one, 2, 0);
  EXPECT_EQ(at.check, 0);
  EXPECT_EQ(at.number.toInt(), 2);
  EXPECT_EQ(two->checks().serves(at), Serves::yes);
  EXPECT_EQ(three->checks().serves(at), Serves::no);
  EXPECT_EQ(one->checks().serves(at), Serves::no);
}

TEST(Checks, ChecksBeforeHaveHeld) {
  const auto ran = program({{3, "m", 1}, {5, "n", 1}});
  const Found at = found(*ran, 1, 2);
  EXPECT_EQ(at.check, 1);
  EXPECT_EQ(program({{3, "m", 1}, {5, "n", 2}})->checks().serves(at), Serves::yes);
  EXPECT_EQ(program({{3, "m", 1}, {5, "n", 2}, {7, "n", 9}})->checks().serves(at), Serves::yes);
  EXPECT_EQ(program({{3, "m", 2}, {5, "n", 2}})->checks().serves(at), Serves::no);
  EXPECT_EQ(program({{3, "m", 2}})->checks().serves(at), Serves::no);
}

TEST(Checks, AnErrorNamesTheLineOfItsCheck) {
  const auto ran = program({{3, "m", 1}, {5, "n", 1}});
  try {
    jit::Stack stack{number(1), number(2)};
    ran->run(stack);
    FAIL();
  } catch (const CheckFailed &check) {
    EXPECT_EQ(told(check),
              "a number that the graph was made for has another value: 2, not 1, at net.py:5");
  }
}

TEST(Checks, OthersSayNothing) {
  const auto ran = program({{3, "m", 1}, {5, "n", 1}});
  const Found at = found(*ran, 1, 2);
  EXPECT_EQ(program({})->checks().serves(at), Serves::unknown);
  EXPECT_EQ(program({{3, "m", 1}})->checks().serves(at), Serves::unknown);
  EXPECT_EQ(program({{3, "m", 1}, {6, "n", 2}})->checks().serves(at), Serves::unknown);
}

/// Checks at the start are evaluated before the run, and each graph has its own.
TEST(Checks, ThoseAtTheStartAreNotCompared) {
  const auto ran = program({{3, "m", 1}}, {{9, "n", 7}});
  const Found at = found(*ran, 2, 7);
  EXPECT_EQ(at.check, 1);
  EXPECT_EQ(program({{3, "m", 2}})->checks().serves(at), Serves::yes);
  EXPECT_EQ(program({{3, "m", 2}}, {{8, "n", 7}, {9, "n", 7}})->checks().serves(at), Serves::yes);
  EXPECT_EQ(program({{3, "m", 3}}, {{9, "n", 7}})->checks().serves(at), Serves::no);
}

TEST(Checks, KindsAndNumbersDiffer) {
  const auto kind = [](std::int64_t kind) {
    auto graph = std::make_shared<jit::Graph>();
    jit::parseIR(fmt::format(R"IR(graph(%m : Tensor, %n : Tensor):
  %e : int = prim::Constant[value={}]()
  %y : Tensor = aten::exp(%m)
  %k : Scalar = aten::item(%m)
  tracehost::check_kind(%k, %e)
  return (%y))IR",
                             kind),
                 graph.get());
    return std::make_shared<Program>(std::move(graph), "f", 1);
  };
  const auto ran = kind(2);
  const Found at = found(*ran, 1, 1);
  EXPECT_EQ(kind(1)->checks().serves(at), Serves::yes);
  EXPECT_EQ(kind(0)->checks().serves(at), Serves::no);
  EXPECT_EQ(program({{0, "m", 1}})->checks().serves(at), Serves::unknown);
}

} // namespace
} // namespace tracehost
