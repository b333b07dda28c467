#include "archive/graph_record.h"

#include "archive/graph_values.h"
#include "program/nodes.h"

#include <ATen/ops/ones.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tracehost::archive {
namespace {

namespace jit = torch::jit;

std::shared_ptr<jit::Graph> parsed(const std::string &ir) {
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(ir, graph.get());
  return graph;
}

/// As printed, with values named by their order.
std::string printed(jit::Graph &graph) {
  std::size_t number = 0;
  const auto name = [&](jit::Value *value) { value->setDebugName("v" + std::to_string(number++)); };
  for (jit::Value *input : graph.inputs())
    name(input);
  each_node(graph.block(), [&](jit::Node *node) {
    for (jit::Block *block : node->blocks())
      for (jit::Value *input : block->inputs())
        name(input);
    for (jit::Value *output : node->outputs())
      name(output);
  });
  return graph.toString(false);
}

/// The record with this one graph, which holds no tensor.
std::string written(jit::Graph &graph) {
  GraphWriter writer(
      [](const at::Tensor &, const char *) -> std::uint64_t { throw Error("a tensor"); });
  writer.add(graph);
  return writer.bytes(TensorTable());
}

TEST(GraphRecord, GivesTheGraphThatWasWritten) {
  const auto graph = parsed(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %yes : bool = prim::Constant[value=1]()
  %text : str = prim::Constant[value="floor"]()
  %sum : Tensor = aten::add(%x, %y, %one)
  %sizes : int[] = aten::size(%sum)
  %list : Tensor[] = prim::ListConstruct(%x, %sum)
  %a : Tensor, %b : Tensor = prim::ListUnpack(%list)
  %total : Tensor = aten::sum(%sum, %none)
  %cond : bool = aten::Bool(%total)
  %r : Tensor, %n : int = prim::If(%cond)
    block0():
      %t : Tensor = aten::div(%a, %b, %text)
      -> (%t, %one)
    block1():
      %two : int = prim::Constant[value=2]()
      -> (%b, %two)
  %l : Tensor = prim::Loop(%n, %yes, %r)
    block0(%i : int, %c : Tensor):
      %d : Tensor = aten::add(%c, %i, %one)
      -> (%yes, %d)
  return (%l, %total))");
  const std::string bytes = written(*graph);
  const GraphReader reader(bytes, {}, {at::kCPU, at::kCPU});
  const auto read = reader.graph(0, 2);
  EXPECT_EQ(printed(*read), printed(*graph));
  EXPECT_EQ(written(*read), bytes);
}

TEST(GraphRecord, HasTypesAndValuesToTheBit) {
  const auto again = [](const c10::IValue &value) {
    ByteWriter to;
    EXPECT_TRUE(write_constant(to, value, {}));
    ByteReader from(to.bytes());
    c10::IValue read = read_constant(from, {});
    EXPECT_TRUE(from.empty());
    return read;
  };
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, least, most})
    EXPECT_EQ(again(number).toInt(), number);
  const double nan = std::bit_cast<double>(0x7ff8000000001234);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(again(nan).toDouble()), 0x7ff8000000001234U);
  EXPECT_TRUE(std::signbit(again(-0.0).toDouble()));
  EXPECT_EQ(again(std::string("a\0b", 3)).toStringRef(), std::string("a\0b", 3));
  EXPECT_TRUE(again(c10::IValue()).isNone());
  EXPECT_EQ(again(c10::Device("cuda:1")).toDevice(), c10::Device("cuda:1"));
  const c10::List<std::optional<std::int64_t>> list({std::nullopt, 3});
  EXPECT_EQ(*again(list).type(), *c10::IValue(list).type());
  EXPECT_EQ(again(c10::List<double>()).toDoubleVector().size(), 0U);
  c10::Dict<std::string, std::int64_t> dict;
  dict.insert("a", 1);
  EXPECT_EQ(again(dict).toGenericDict().at("a").toInt(), 1);
  const at::Tensor number = again([] {
                              at::Tensor half = at::ones({}, at::kDouble) / 2;
                              half.unsafeGetTensorImpl()->set_wrapped_number(true);
                              return half;
                            }())
                                .toTensor();
  EXPECT_TRUE(number.unsafeGetTensorImpl()->is_wrapped_number());
  EXPECT_EQ(number.item<double>(), 0.5);
}

TEST(GraphRecord, SaysWhatHasNoForm) {
  const auto graph = parsed(R"(graph(%x : Tensor):
  %y : Tensor = my::unknown(%x)
  return (%y))");
  try {
    written(*graph);
    ADD_FAILURE() << "was written";
  } catch (const Error &e) {
    EXPECT_STREQ(e.what(), "it has operator 'my::unknown', which has no schema here");
  }
}

} // namespace
} // namespace tracehost::archive
