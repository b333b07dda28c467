#include "program/checks.h"
#include "program/places.h"
#include "program/program.h"
#include "program/undo.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

namespace tracehost {
namespace {

namespace jit = torch::jit;

/// Writes `%t`, and is made for a `%n` of 3.
const char *const writes = R"IR(graph(%t : Tensor, %n : Tensor):
  %one : int = prim::Constant[value=1]()
  %three : int = prim::Constant[value=3]()
  tracehost::save_data(%t)
  %u : Tensor = aten::add_(%t, %one, %one)
  %s : int = aten::item(%n)
  tracehost::check_number(%s, %three)
  tracehost::forget_saved()
  %v : Tensor = aten::mul(%u, %u)
  return (%v))IR";

class UndoTest : public testing::Test {
protected:
  UndoTest() {
    auto graph = std::make_shared<jit::Graph>();
    jit::parseIR(writes, graph.get());
    program = std::make_unique<Program>(std::move(graph), "writes", 1);
  }
  at::Tensor run(const at::Tensor &t, std::int64_t n) const {
    jit::Stack stack{t, at::scalar_tensor(n, at::kLong)};
    program->run(stack);
    return stack.back().toTensor();
  }
  std::unique_ptr<Program> program;
};

TEST_F(UndoTest, FailedCheckPutsBackValuesAndVersion) {
  const at::Tensor t = at::zeros({2, 3});
  const auto version = t._version();
  EXPECT_THROW(run(t, 4), CheckFailed);
  EXPECT_TRUE(t.equal(at::zeros({2, 3})));
  EXPECT_EQ(t._version(), version);
  EXPECT_EQ(Undo::current, nullptr);
}

TEST_F(UndoTest, CheckThatHoldsKeepsTheWrite) {
  const at::Tensor t = at::zeros({2, 3});
  const auto version = t._version();
  EXPECT_TRUE(run(t, 3).equal(at::ones({2, 3})));
  EXPECT_TRUE(t.equal(at::ones({2, 3})));
  EXPECT_EQ(t._version(), version + 1);
}

TEST(Undo, ViewsOfOneMemoryArePutBackTheNewestFirst) {
  const at::Tensor base = at::arange(4.0), view = base.slice(0, 1, 3);
  const auto version = base._version();
  Undo undo;
  undo.save_data(view);
  view.add_(1);
  undo.save_data(base);
  base.mul_(2);
  undo.save_data(view); // saved already, with what was there first
  view.zero_();
  undo.restore();
  EXPECT_TRUE(base.equal(at::arange(4.0)));
  EXPECT_EQ(base._version(), version);
}

TEST(Undo, GradientsAndWhatTheyHold) {
  at::Tensor leaf = at::ones({2}).requires_grad_(), other = at::ones({2}).requires_grad_();
  const at::Tensor grad = at::full({2}, 5.0);
  leaf.mutable_grad() = grad;
  Undo undo;
  undo.save_grad(leaf, true);
  undo.save_grad(other, true);
  (leaf * other).sum().backward();
  EXPECT_TRUE(grad.equal(at::full({2}, 6.0))) << "the engine adds in place";
  undo.restore();
  EXPECT_TRUE(leaf.grad().is_same(grad));
  EXPECT_TRUE(grad.equal(at::full({2}, 5.0)));
  EXPECT_FALSE(other.grad().defined());
}

TEST(Undo, Generators) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  const at::Tensor expected = at::rand({4}, generator.clone());
  Undo undo;
  undo.save_generator(generator);
  at::rand({9}, generator);
  undo.restore();
  EXPECT_TRUE(at::rand({4}, generator).equal(expected));
}

TEST(Undo, ForgottenIsNotPutBack) {
  const at::Tensor t = at::zeros({2});
  Undo undo;
  undo.save_data(t);
  t.add_(1);
  undo.forget();
  undo.restore();
  EXPECT_TRUE(t.equal(at::ones({2})));
}

} // namespace
} // namespace tracehost
