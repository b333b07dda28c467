#include "program/device_flags.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <memory>
#include <string>

namespace tracehost {
namespace {

/// The graph after the pass; x lies on `device`.
std::string with_flags(const std::string &device, const std::string &op) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR("graph(%x : Float(1, 3, 5, 5, device=" + device + R"(), %w : Tensor):
  %none : NoneType = prim::Constant()
  %on : bool = prim::Constant[value=1]()
  %off : bool = prim::Constant[value=0]()
  %rate : float = prim::Constant[value=0.1]()
  %one : int = prim::Constant[value=1]()
  %two : int[] = prim::ListConstruct(%one, %one)
)" + op + "\n  return (%y)\n",
                      graph.get());
  read_device_flags(graph->block());
  graph->lint();
  return graph->toString();
}

constexpr const char *kConvolution = "  %y : Tensor = aten::_convolution(%x, %w, %none, %two, "
                                     "%two, %two, %off, %two, %one, %off, %off, %on, %on)";
constexpr const char *kBatchNorm =
    "  %y : Tensor = aten::batch_norm(%x, %none, %none, %none, %none, %on, %rate, %rate, %on)";
constexpr const char *kInstanceNorm =
    "  %y : Tensor = aten::instance_norm(%x, %none, %none, %none, %none, %on, %rate, %rate, %on)";

bool has(const std::string &text, const char *part) { return text.find(part) != text.npos; }

TEST(DeviceFlagsTest, AConvolutionOnCudaHasNone) {
  const std::string graph = with_flags("cuda:0", kConvolution);
  EXPECT_TRUE(has(graph, "aten::convolution(%x, %w, %2, %7, %7, %7, %4, %7, %6)")) << graph;
  EXPECT_FALSE(has(graph, "_convolution")) << graph;
}

TEST(DeviceFlagsTest, ANormOnCudaReadsWhetherCudnnIsEnabled) {
  for (const char *op : {kBatchNorm, kInstanceNorm}) {
    const std::string graph = with_flags("cuda:0", op);
    EXPECT_TRUE(has(graph, "bool = tracehost::cudnn_enabled()")) << graph;
  }
}

TEST(DeviceFlagsTest, OnTheCpuNothingChanges) {
  EXPECT_TRUE(has(with_flags("cpu", kConvolution), "aten::_convolution"));
  EXPECT_FALSE(has(with_flags("cpu", kBatchNorm), "cudnn_enabled"));
}

TEST(DeviceFlagsTest, TheOpReadsTheFlag) {
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("tracehost::cudnn_enabled", "")
                      .typed<bool()>();
  const bool before = at::globalContext().userEnabledCuDNN();
  for (const bool enabled : {false, true}) {
    at::globalContext().setUserEnabledCuDNN(enabled);
    EXPECT_EQ(op.call(), enabled);
  }
  at::globalContext().setUserEnabledCuDNN(before);
}

} // namespace
} // namespace tracehost
