#include "program/merge.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <memory>
#include <string>

namespace tracehost {
namespace {

/// How many ops of `kind` the graph has left, in inner blocks too.
std::size_t count(const torch::jit::Block &block, const std::string &kind) {
  std::size_t found = 0;
  for (const torch::jit::Node *node : block.nodes()) {
    found += node->kind() == c10::Symbol::fromQualString(kind) ? 1 : 0;
    for (const torch::jit::Block *inner : node->blocks())
      found += count(*inner, kind);
  }
  return found;
}

std::size_t left(const std::string &kind, const std::string &body) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR("graph(%x : Tensor, %w : Tensor, %h : Tensor):\n" + body, graph.get());
  merge_equal(*graph->block());
  graph->lint();
  return count(*graph->block(), kind);
}

struct Case {
  const char *name;
  const char *kind;
  std::size_t left;
  const char *body;
};
void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }

class MergeTest : public testing::TestWithParam<Case> {};

TEST_P(MergeTest, LeavesSoMany) {
  EXPECT_EQ(left(GetParam().kind, GetParam().body), GetParam().left);
}

const Case kCases[] = {
    {"EqualOps", "aten::mm", 1, R"(
  %a : Tensor = aten::mm(%x, %w)
  %b : Tensor = aten::mm(%x, %w)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"OtherOperands", "aten::mm", 2, R"(
  %a : Tensor = aten::mm(%x, %w)
  %b : Tensor = aten::mm(%w, %x)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"OpsOfEqualOps", "aten::mm", 1, R"(
  %t : Tensor = aten::t(%w)
  %u : Tensor = aten::t(%w)
  %a : Tensor = aten::mm(%x, %t)
  %b : Tensor = aten::mm(%x, %u)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"EqualConstants", "aten::add", 1, R"(
  %one : int = prim::Constant[value=1]()
  %also : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %w, %one)
  %b : Tensor = aten::add(%x, %w, %also)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"ANumberOfAnotherKind", "aten::add", 2, R"(
  %unit : int = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %also : float = prim::Constant[value=1.]()
  %a : Tensor = aten::add(%x, %one, %unit)
  %b : Tensor = aten::add(%x, %also, %unit)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"MinusZero", "aten::add", 2, R"(
  %unit : int = prim::Constant[value=1]()
  %one : float = prim::Constant[value=0.]()
  %also : float = prim::Constant[value=-0.]()
  %a : Tensor = aten::add(%x, %one, %unit)
  %b : Tensor = aten::add(%x, %also, %unit)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"EqualLists", "aten::view", 1, R"(
  %two : int = prim::Constant[value=2]()
  %n : int = prim::Constant[value=2]()
  %s : int[] = prim::ListConstruct(%two, %n)
  %r : int[] = prim::ListConstruct(%n, %two)
  %a : Tensor = aten::view(%x, %s)
  %b : Tensor = aten::view(%x, %r)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"ReturnedResults", "aten::mm", 2, R"(
  %a : Tensor = aten::mm(%x, %w)
  %b : Tensor = aten::mm(%x, %w)
  return (%a, %b))"},
    {"AReturnedView", "aten::mm", 2, R"(
  %a : Tensor = aten::mm(%x, %w)
  %b : Tensor = aten::mm(%x, %w)
  %t : Tensor = aten::t(%b)
  %c : Tensor = aten::mul(%a, %w)
  return (%c, %t))"},
    {"AResultThatIsWritten", "aten::mm", 2, R"(
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::mm(%x, %w)
  %b : Tensor = aten::mm(%x, %w)
  %d : Tensor = aten::add_(%b, %h, %one)
  %c : Tensor = aten::mul(%a, %d)
  return (%c))"},
    {"AnOperandWrittenBetween", "aten::mm", 2, R"(
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::mm(%x, %w)
  %d : Tensor = aten::add_(%w, %h, %one)
  %b : Tensor = aten::mm(%x, %w)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"AStatisticUpdatedBetween", "aten::mul", 3, R"(
  %no : NoneType = prim::Constant()
  %yes : bool = prim::Constant[value=1]()
  %e : float = prim::Constant[value=0.1]()
  %a : Tensor = aten::mul(%w, %h)
  %n : Tensor = aten::batch_norm(%x, %no, %no, %w, %h, %yes, %e, %e, %yes)
  %b : Tensor = aten::mul(%w, %h)
  %c : Tensor = aten::mul(%a, %b)
  %d : Tensor = aten::mm(%c, %n)
  return (%d))"},
    {"AModeSwitchedBetween", "aten::mm", 2, R"(
  %off : bool = prim::Constant[value=0]()
  %a : Tensor = aten::mm(%x, %w)
  aten::set_grad_enabled(%off)
  %b : Tensor = aten::mm(%x, %w)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"RandomOps", "aten::bernoulli", 2, R"(
  %no : NoneType = prim::Constant()
  %a : Tensor = aten::bernoulli(%x, %no)
  %b : Tensor = aten::bernoulli(%x, %no)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"Dropout", "aten::dropout", 2, R"(
  %yes : bool = prim::Constant[value=1]()
  %p : float = prim::Constant[value=0.5]()
  %a : Tensor = aten::dropout(%x, %p, %yes)
  %b : Tensor = aten::dropout(%x, %p, %yes)
  %c : Tensor = aten::mul(%a, %b)
  return (%c))"},
    {"AnInnerBlockApart", "aten::mm", 2, R"(
  %yes : bool = prim::Constant[value=1]()
  %a : Tensor = aten::mm(%x, %w)
  %d : Tensor = prim::If(%yes)
    block0():
      %b : Tensor = aten::mm(%x, %w)
      %e : Tensor = aten::mm(%x, %w)
      %f : Tensor = aten::mul(%b, %e)
      -> (%f)
    block1():
      -> (%h)
  %c : Tensor = aten::mul(%a, %d)
  return (%c))"},
};

INSTANTIATE_TEST_SUITE_P(Graphs, MergeTest, testing::ValuesIn(kCases),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tracehost
