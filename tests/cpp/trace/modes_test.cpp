#include "program/modes.h"
#include "program/program.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

namespace tracehost {
namespace {

namespace jit = torch::jit;

std::vector<at::Tensor> run(const std::string &text, std::vector<at::Tensor> inputs,
                            std::size_t outputs) {
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(text, graph.get());
  const Program program(graph, "f", outputs);
  jit::Stack stack(inputs.begin(), inputs.end());
  program.run(stack);
  std::vector<at::Tensor> results;
  for (const auto &value : stack)
    results.push_back(value.toTensor());
  return results;
}

/// `%end`: the mode that it ends in, the call's.
const std::string inference = R"IR(graph(%x : Tensor, %i : Tensor):
  %on : bool = prim::Constant[value=1]()
  %off : bool = prim::Constant[value=0]()
  %dim : int = prim::Constant[value=0]()
  tracehost::set_inference_mode(%on)
  %y : Tensor = aten::neg(%x)
  tracehost::set_inference_mode(%off)
  %z : Tensor = aten::neg(%x)
  tracehost::set_inference_mode(%on)
  %w : Tensor = aten::index_select(%z, %dim, %i)
  tracehost::set_inference_mode(%end)
  return (%y, %z, %w))IR";

std::string ends_in(const std::string &mode) {
  std::string text = inference;
  return text.replace(text.find("%end"), 4, mode);
}

const char *const autocast = R"IR(graph(%x : Tensor, %i : Tensor):
  %on : bool = prim::Constant[value=1]()
  %cpu : str = prim::Constant[value="cpu"]()
  %bfloat : int = prim::Constant[value=15]()
  %one : int = prim::Constant[value=1]()
  %dim : int = prim::Constant[value=0]()
  tracehost::set_autocast_regions(%one, %on)
  tracehost::set_autocast(%cpu, %on, %bfloat)
  %y : Tensor = aten::matmul(%x, %x)
  %w : Tensor = aten::index_select(%x, %dim, %i)
  return (%y, %w))IR";

at::Tensor index(std::int64_t i) { return at::tensor({i}); }

bool as_usual() {
  return !c10::InferenceMode::is_enabled() && at::GradMode::is_enabled() &&
         !at::autocast::is_autocast_enabled(at::kCPU) && autocast_regions() == 0 &&
         c10::AutogradState::get_tls_state().get_fw_grad_mode() &&
         (at::ones({1}).requires_grad_() * 2).requires_grad();
}

TEST(Modes, OfInferenceAreSwitchedByNodesAndPutBackAfterTheRun) {
  const auto x = at::ones({2, 2}).requires_grad_();
  const auto results = run(ends_in("%off"), {x, index(1)}, 3);
  EXPECT_TRUE(results[0].is_inference());
  EXPECT_FALSE(results[1].is_inference());
  EXPECT_TRUE(results[1].requires_grad());
  EXPECT_FALSE(results[2].requires_grad());
  EXPECT_TRUE(as_usual());
}

TEST(Modes, ArePutBackWhereAnOpFails) {
  const auto x = at::ones({2, 2}).requires_grad_();
  EXPECT_THROW(run(ends_in("%off"), {x, index(7)}, 3), c10::IndexError);
  EXPECT_TRUE(as_usual());
  EXPECT_THROW(run(autocast, {x, index(7)}, 2), c10::IndexError);
  EXPECT_TRUE(as_usual());
}

TEST(Modes, OfInferenceArePutBackToThoseOfTheCall) {
  const c10::InferenceMode around;
  const auto results = run(ends_in("%on"), {at::ones({2, 2}), index(1)}, 3);
  EXPECT_FALSE(at::neg(results[1]).requires_grad());
  EXPECT_TRUE(c10::InferenceMode::is_enabled());
  EXPECT_FALSE(at::GradMode::is_enabled());
  EXPECT_TRUE(at::ones({1}).is_inference());
}

TEST(Modes, OfAutocastAreSwitchedByNodesAndPutBackAfterTheRun) {
  const auto x = at::ones({2, 2}).requires_grad_();
  EXPECT_EQ(run(autocast, {x, index(1)}, 2)[0].scalar_type(), at::kBFloat16);
  EXPECT_TRUE(as_usual());
  EXPECT_EQ(at::matmul(x, x).scalar_type(), at::kFloat);
}

TEST(Modes, CastsOfWeightsAreForgottenWithTheirRegion) {
  const auto x = at::eye(2).requires_grad_();
  run(autocast, {x, index(1)}, 2);
  x.variable_data().mul_(2);
  const auto y = run(autocast, {x, index(1)}, 2)[0];
  EXPECT_TRUE(at::equal(y, (4 * at::eye(2)).to(at::kBFloat16)));
}

} // namespace
} // namespace tracehost
