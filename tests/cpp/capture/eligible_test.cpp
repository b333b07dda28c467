#include "capture/eligible.h"
#include "capture/writes.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

#include <string>

/// Each rule of which graphs can be captured, by graphs as text. Device constants need no CUDA.

namespace tracehost::capture {
namespace {

namespace jit = torch::jit;

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

/// Why the graph is not captured for inputs on the CPU, which stands for the device that captures.
std::string reason(const std::string &text, const jit::Stack &inputs,
                   c10::Device device = c10::kCPU) {
  jit::Graph graph;
  jit::parseIR(text, &graph);
  const auto found = not_capturable(graph, inputs, device);
  return found ? found->what : "";
}

/// The same of a graph with one input, %x, and the output %y.
std::string reason_of(const std::string &lines) {
  return reason(std::string("graph(%x : Tensor):\n") + lines + "  return (%y)", {at::ones({3})});
}
/// The same of a graph on a GPU without inputs.
std::string reason_on_gpu(const std::string &lines) {
  return reason(std::string("graph():\n") + lines + "  return (%y)", {}, kGpu);
}

TEST(Eligible, OpsThatOnlyLaunch) {
  EXPECT_EQ(reason_of("  %y : Tensor = aten::neg(%x)\n"), "");
  EXPECT_EQ(reason_of("  %n : int = prim::Constant[value=0]()\n"
                      "  %s : int = aten::size(%x, %n)\n"
                      "  %l : int[] = prim::ListConstruct(%s)\n"
                      "  %y : Tensor = aten::view(%x, %l)\n"),
            "");
}

TEST(Eligible, AnOpThatTheHostWaitsFor) {
  EXPECT_EQ(reason_of("  %y : Tensor = aten::nonzero(%x)\n"), "aten::nonzero waits for the device");
  EXPECT_EQ(reason_of("  %y : Scalar = aten::item(%x)\n"), "aten::item waits for the device");
  EXPECT_EQ(reason_of("  %y : bool = aten::Bool(%x)\n"), "aten::Bool waits for the device");
  EXPECT_EQ(reason_of("  %y : Tensor = aten::masked_select(%x, %x)\n"),
            "aten::masked_select waits for the device");
  EXPECT_EQ(reason_of("  %y : bool = aten::equal(%x, %x)\n"), "aten::equal waits for the device");
}

TEST(Eligible, ReasonsHaveTheirNode) {
  jit::Graph graph;
  jit::parseIR("graph(%x : Tensor):\n  %y : Tensor = aten::nonzero(%x)\n  return (%y)", &graph);
  const auto found = not_capturable(graph, jit::Stack{at::ones({3})}, c10::kCPU);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->node, *graph.nodes().begin());
}

TEST(Eligible, AnIndexIsNoMask) {
  const std::string index = "  %l : Tensor?[] = prim::ListConstruct(%i)\n"
                            "  %y : Tensor = aten::index(%x, %l)\n";
  EXPECT_EQ(reason(std::string("graph(%x : Tensor, %i : Long(2)):\n") + index + "  return (%y)",
                   {at::ones({3}), at::ones({2}, at::kLong)}),
            "");
  EXPECT_EQ(reason(std::string("graph(%x : Tensor, %i : Bool(3)):\n") + index + "  return (%y)",
                   {at::ones({3}), at::ones({3}, at::kBool)}),
            "aten::index waits for the device");
}

TEST(Eligible, ABranchByAValueReadsIt) {
  const std::string branch = "  %y : Tensor = prim::If(%b)\n"
                             "    block0():\n      -> (%x)\n"
                             "    block1():\n      %z : Tensor = aten::neg(%x)\n      -> (%z)\n";
  EXPECT_EQ(reason_of(std::string("  %b : bool = aten::Bool(%x)\n") + branch),
            "aten::Bool waits for the device");
  EXPECT_EQ(reason_of(std::string("  %b : bool = prim::Constant[value=1]()\n") + branch), "");
  EXPECT_EQ(reason_of("  %b : bool = prim::Constant[value=1]()\n"
                      "  %y : Tensor = prim::If(%b)\n"
                      "    block0():\n      %z : Tensor = aten::nonzero(%x)\n      -> (%z)\n"
                      "    block1():\n      -> (%x)\n"),
            "aten::nonzero waits for the device");
}

TEST(Eligible, NumbersOfTheCall) {
  EXPECT_EQ(reason("graph(%x : Tensor, %n : Scalar):\n  %y : Tensor = aten::mul(%x, %n)\n"
                   "  return (%y)",
                   {at::ones({3}), 2.0}),
            "input 1 is a number of the call");
}

TEST(Eligible, InputsOnTheCpu) {
  const std::string text = "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)";
  EXPECT_EQ(reason(text, {at::ones({3})}, kGpu), "input 0 lies on cpu, not on cuda:0");
  EXPECT_EQ(reason("graph(%step : Tensor):\n  %n : int = prim::Constant[value=1]()\n"
                   "  %y : Tensor = aten::add_(%step, %n, %n)\n  return (%y)",
                   {at::ones({})}, kGpu),
            "input 0 lies on cpu, not on cuda:0; an optimizer needs capturable=True");
}

TEST(Eligible, OtherOpsThanTorchs) {
  EXPECT_EQ(reason_of("  %y : Tensor = tests::unknown(%x)\n"),
            "tests::unknown does more than compute");
  EXPECT_EQ(reason_of("  %y : Tensor = aten::requires_grad_(%x)\n"),
            "aten::requires_grad_ does more than compute");
}

const std::string kZeros = "  %none : None = prim::Constant()\n"
                           "  %n : int = prim::Constant[value=3]()\n"
                           "  %l : int[] = prim::ListConstruct(%n)\n"
                           "  %gpu : Device = prim::Constant[value=\"cuda:0\"]()\n"
                           "  %other : Device = prim::Constant[value=\"cuda:1\"]()\n"
                           "  %cpu : Device = prim::Constant[value=\"cpu\"]()\n"
                           "  %f : bool = prim::Constant[value=0]()\n"
                           "  %on : Tensor = aten::zeros(%l, %none, %none, %gpu, %none)\n"
                           "  %off : Tensor = aten::zeros(%l, %none, %none, %none, %none)\n";

TEST(Eligible, AConstantOfTheCpuMayStayThere) {
  EXPECT_EQ(reason_on_gpu(kZeros + "  %y : Tensor = aten::mul(%on, %on)\n"), "");
  EXPECT_EQ(reason_on_gpu(kZeros + "  %y : Tensor = aten::neg(%off)\n"), "");
}

TEST(Eligible, CopiesBetweenTheHostAndTheDevice) {
  EXPECT_EQ(reason_on_gpu(kZeros +
                          "  %y : Tensor = aten::_to_copy(%off, %none, %none, %gpu, %none, %f, "
                          "%none)\n"),
            "aten::_to_copy copies between the host and the device");
  EXPECT_EQ(reason_on_gpu(kZeros +
                          "  %y : Tensor = aten::_to_copy(%on, %none, %none, %cpu, %none, %f, "
                          "%none)\n"),
            "aten::_to_copy copies between the host and the device");
  EXPECT_EQ(reason_on_gpu(kZeros + "  %y : Tensor = aten::copy_(%on, %off, %f)\n"),
            "aten::copy_ copies between the host and the device");
}

TEST(Eligible, AnotherDevice) {
  EXPECT_EQ(
      reason_on_gpu(kZeros + "  %y : Tensor = aten::zeros(%l, %none, %none, %other, %none)\n"),
      "aten::zeros uses cuda:1 besides cuda:0");
}

TEST(Eligible, EffectsOnTheCpu) {
  EXPECT_EQ(reason_on_gpu(kZeros + "  %y : Tensor = aten::add_(%off, %n, %n)\n"),
            "aten::add_ writes to a tensor of the CPU");
  EXPECT_EQ(reason_on_gpu(kZeros + "  %y : Tensor = aten::rand(%l, %none, %none, %none, %none)\n"),
            "aten::rand draws on the CPU");
  EXPECT_EQ(reason_on_gpu(kZeros + "  %y : Tensor = aten::rand(%l, %none, %none, %gpu, %none)\n"),
            "");
}

TEST(Eligible, AGeneratorOfItsOwn) {
  EXPECT_EQ(reason("graph(%x : Tensor, %g : Generator):\n"
                   "  %y : Tensor = aten::bernoulli(%x, %g)\n  return (%y)",
                   {at::ones({3}), c10::IValue()}),
            "aten::bernoulli draws from a generator of its own");
}

std::vector<bool> written(const std::string &lines) {
  jit::Graph graph;
  jit::parseIR(std::string("graph(%x : Tensor, %w : Tensor):\n"
                           "  %n : int = prim::Constant[value=0]()\n") +
                   lines + "  return (%n)",
               &graph);
  return written_inputs(graph);
}

TEST(WrittenInputs, AreWrittenThroughViewsAndLists) {
  using Written = std::vector<bool>;
  EXPECT_EQ(written("  %y : Tensor = aten::neg(%w)\n  %z : Tensor = aten::neg_(%y)\n"),
            (Written{false, false}));
  EXPECT_EQ(written("  %z : Tensor = aten::neg_(%w)\n"), (Written{false, true}));
  EXPECT_EQ(written("  %y : Tensor = aten::select(%w, %n, %n)\n  %z : Tensor = aten::t(%y)\n"
                    "  %u : Tensor = aten::neg_(%z)\n"),
            (Written{false, true}));
  EXPECT_EQ(written("  %l : Tensor[] = prim::ListConstruct(%w, %x)\n"
                    "  aten::_foreach_neg_(%l)\n"),
            (Written{true, true}));
  EXPECT_EQ(written("  %p : Tensor[] = aten::unbind(%w, %n)\n  aten::_foreach_neg_(%p)\n"),
            (Written{false, true}));
  EXPECT_EQ(written("  %b : bool = prim::Constant[value=1]()\n  %y : Tensor = prim::If(%b)\n"
                    "    block0():\n      -> (%w)\n    block1():\n      -> (%x)\n"
                    "  %z : Tensor = aten::neg_(%y)\n"),
            (Written{true, true}));
  EXPECT_EQ(written("  %b : bool = prim::Constant[value=1]()\n"
                    "  %v : Tensor, %u : Tensor = prim::Loop(%n, %b, %x, %w)\n"
                    "    block0(%i : int, %p : Tensor, %q : Tensor):\n"
                    "      %z : Tensor = aten::neg_(%p)\n      -> (%b, %q, %q)\n"),
            (Written{true, true}));
  const std::string dropped = "  %f : bool = prim::Constant[value=0]()\n"
                              "  %h : float = prim::Constant[value=0.5]()\n"
                              "  %y : Tensor = aten::dropout(%w, %h, %f)\n"
                              "  %z : Tensor = aten::neg_(%y)\n";
  EXPECT_EQ(written(dropped), (Written{false, true}));
}

TEST(Eligible, LaunchesAreOpsThatMakeTensors) {
  jit::Graph graph;
  jit::parseIR("graph(%x : Tensor):\n  %n : int = prim::Constant[value=0]()\n"
               "  %s : int = aten::size(%x, %n)\n  %v : Tensor = aten::unsqueeze(%x, %n)\n"
               "  %a : Tensor = aten::neg(%v)\n  %b : Tensor = aten::relu_(%a)\n  return (%b)",
               &graph);
  EXPECT_EQ(count_launches(*graph.block()), 2U);
}

} // namespace
} // namespace tracehost::capture
