#include "program/interruption.h"

#include "program/program.h"
#include "support/endless.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

#include <stdexcept>

namespace tracehost {
namespace {

namespace jit = torch::jit;

/// The check that is set in a scope.
class Checking {
public:
  explicit Checking(void (*check)()) { set_interruption_check(check); }
  ~Checking() { set_interruption_check(nullptr); }
};

std::shared_ptr<jit::Graph> graph_of(const char *text) {
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(text, graph.get());
  return graph;
}

TEST(Interruption, AnEndlessLoopEndsWithWhatTheCheckThrows) {
  const Checking checking([] { throw std::invalid_argument("stop"); });
  const Program program(test::endless(), "endless", 1);
  jit::Stack stack{at::zeros({}, at::kLong)};
  EXPECT_THROW(program.run(stack), std::invalid_argument);
}

TEST(Interruption, TheGraphIsAsItWas) {
  const Checking checking([] {});
  const Program program(test::endless(), "endless", 1);
  EXPECT_EQ(program.graph().toString(false).find("interruptible"), std::string::npos);
  EXPECT_EQ(program.ops(), 2u);
}

TEST(Interruption, ALongBlockAsksAfterEachEightOps) {
  const Checking checking([] {});
  std::string text = "graph(%x0 : Tensor):\n";
  for (int i = 0; i < 20; ++i)
    text += "  %x" + std::to_string(i + 1) + " : Tensor = aten::neg(%x" + std::to_string(i) + ")\n";
  const auto graph = graph_of((text + "  return (%x20)").c_str());
  const InterruptionChecks checks(*graph);
  const auto printed = graph->toString(false);
  std::size_t found = 0;
  for (std::size_t at = 0; (at = printed.find("interruptible", at)) != std::string::npos; ++at)
    ++found;
  EXPECT_EQ(found, 2u);
}

} // namespace
} // namespace tracehost
