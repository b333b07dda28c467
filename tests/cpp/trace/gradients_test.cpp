#include "trace/gradients.h"

#include "program/program.h"
#include "support/frontend.h"
#include "trace/call.h"
#include "trace/tracer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tracehost::trace {
namespace {

using test::FakeFrontend;
using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

/// As a front end does it: the engine runs as outside of the trace, and is recorded.
Tensors run_engine(const EngineCall &call) {
  prepare_engine_call(call);
  Tensors results;
  {
    const Called called;
    if (call.accumulates)
      torch::autograd::backward(call.roots, call.grads, call.retain_graph, call.create_graph,
                                call.inputs);
    else
      results = torch::autograd::grad(call.roots, call.inputs, call.grads, call.retain_graph,
                                      call.create_graph, call.allow_unused);
  }
  record_engine_call(call, results);
  return results;
}

/// What runs again, with the captures as further inputs.
class Replay {
public:
  Replay(const Traced &traced, std::size_t outputs) : program_(traced.graph, "test", outputs) {}
  Tensors operator()(const Tensors &inputs) const {
    torch::jit::Stack stack(inputs.begin(), inputs.end());
    program_.run(stack);
    Tensors results;
    for (const auto &value : stack)
      results.push_back(value.toTensor());
    return results;
  }
  const Program &program() const { return program_; }

private:
  const Program program_;
};

class GradientsTest : public testing::Test {
protected:
  std::string rejection(const std::function<Tensors()> &body) {
    try {
      trace({x}, {}, frontend, body);
    } catch (const FakeFrontend::Rejected &rejected) {
      return rejected.what();
    }
    ADD_FAILURE() << "nothing was rejected";
    return {};
  }

  FakeFrontend frontend;
  at::Tensor x = at::arange(3, at::kFloat), w = at::ones(3).requires_grad_();
};

TEST_F(GradientsTest, TheGraphRunsTheEngineForGradients) {
  const auto traced = trace({x}, {}, frontend, [&] {
    return run_engine({{(w * x * w).sum()}, {at::ones({})}, {w}, false, false, false, false});
  });
  ASSERT_EQ(traced.captures.size(), 1);
  const Replay replay(traced, 1);
  EXPECT_TRUE(replay.program().runs_engine());
  EXPECT_TRUE(replay.program().long_running());
  const at::Tensor v = at::full({3}, 2.0).requires_grad_(), y = at::ones(3);
  EXPECT_TRUE(at::equal(replay({y, v})[0], at::full({3}, 4.0)));
  EXPECT_FALSE(v.grad().defined());
}

TEST_F(GradientsTest, TheGraphAccumulatesIntoTheLeavesThatItIsGiven) {
  const auto traced = trace({x}, {}, frontend, [&] {
    run_engine({{(w * x).sum()}, {at::ones({})}, {}, false, false, true, true});
    return Tensors{};
  });
  EXPECT_TRUE(at::equal(w.grad(), x));
  EXPECT_TRUE(traced.grads.empty()); // whether there was one before does not matter
  const Replay replay(traced, 0);
  const at::Tensor v = at::ones(3).requires_grad_();
  replay({x, v});
  replay({x, v});
  EXPECT_TRUE(at::equal(v.grad(), x * 2));
}

TEST_F(GradientsTest, NoPassRemovesWhatWritesGradients) {
  const auto traced = trace({x}, {}, frontend, [&] {
    run_engine({{(w * x).sum()}, {at::ones({})}, {}, false, false, true, true});
    w.mutable_grad() = at::Tensor();
    written_grad(w);
    return Tensors{};
  });
  const auto before = std::distance(traced.graph->nodes().begin(), traced.graph->nodes().end());
  torch::jit::EliminateDeadCode(traced.graph);
  EXPECT_EQ(std::distance(traced.graph->nodes().begin(), traced.graph->nodes().end()), before);
}

TEST_F(GradientsTest, AGradientReadFirstIsAsItWasBeforeTheCall) {
  const auto traced = trace({x}, {}, frontend, [&] {
    read_grad(w);
    run_engine({{(w * x).sum()}, {at::ones({})}, {}, false, false, true, true});
    read_grad(w);
    return Tensors{w.grad() * 2};
  });
  ASSERT_EQ(traced.grads.size(), 1);
  EXPECT_EQ(traced.grads[0].input, 1);
  EXPECT_EQ(traced.grads[0].state, GradState::none);
  const Replay replay(traced, 1);
  const at::Tensor v = at::ones(3).requires_grad_();
  EXPECT_TRUE(at::equal(replay({x, v})[0], x * 2));
}

TEST_F(GradientsTest, AGradientReadAfterABackwardPassIsSureToBeThere) {
  const auto traced = trace({x}, {}, frontend, [&] {
    run_engine({{(w * x).sum()}, {at::ones({})}, {}, false, false, true, true});
    read_grad(w);
    return Tensors{w.grad() * 2};
  });
  EXPECT_TRUE(traced.grads.empty());
}

TEST_F(GradientsTest, OneThatNoGradientCameToIsNot) {
  const at::Tensor v = at::ones(3).requires_grad_();
  const auto traced = trace({x, v}, {}, frontend, [&] {
    run_engine({{(w * x).sum()}, {at::ones({})}, {}, false, false, true, true});
    read_grad(v);
    return Tensors{};
  });
  ASSERT_EQ(traced.grads.size(), 1);
  EXPECT_EQ(traced.grads[0].input, 1);
  const Replay replay(traced, 0);
  v.mutable_grad() = at::ones(3);
  EXPECT_THROW(replay({x, v, w}), c10::Error);
}

TEST_F(GradientsTest, AGradientThatIsGoneOrOfAnotherKindIsAnError) {
  w.mutable_grad() = at::ones(3);
  const auto traced = trace({x}, {}, frontend, [&] {
    read_grad(w);
    return Tensors{w.grad() + x};
  });
  const Replay replay(traced, 1);
  EXPECT_THROW(replay({x, at::ones(3).requires_grad_()}), c10::Error);
  const at::Tensor v = at::ones(3).requires_grad_();
  v.mutable_grad() = at::ones(3).requires_grad_();
  EXPECT_THROW(replay({x, v}), c10::Error);
  v.mutable_grad() = at::full({3}, 5.0);
  EXPECT_TRUE(at::equal(replay({x, v})[0], x + 5));
}

TEST_F(GradientsTest, AnUnusedInputHasNoGradient) {
  const at::Tensor v = at::ones(1).requires_grad_();
  const auto traced = trace({x}, {}, frontend, [&] {
    return Tensors{
        run_engine({{(w * x).sum()}, {at::ones({})}, {w, v}, false, false, true, false})[0]};
  });
  const Replay replay(traced, 1);
  EXPECT_TRUE(at::equal(replay({x, w, v})[0], x));
}

TEST_F(GradientsTest, AGradientThatIsAnInputTooIsRejected) {
  w.mutable_grad() = x;
  EXPECT_THAT(rejection([&] {
                read_grad(w);
                return Tensors{};
              }),
              HasSubstr("the body reads a .grad that it is given also as"));
}

TEST_F(GradientsTest, ASparseGradientIsRejected) {
  w.mutable_grad() = x.to_sparse();
  EXPECT_THAT(rejection([&] {
                read_grad(w);
                return Tensors{};
              }),
              HasSubstr("the body reads a .grad which is sparse"));
}

TEST_F(GradientsTest, TheEngineIsRejectedWithoutData) {
  frontend.runs_nothing = true;
  EXPECT_THAT(rejection([&] {
                run_engine({{x}, {at::ones_like(x)}, {}, false, false, true, true});
                return Tensors{};
              }),
              HasSubstr("without example data"));
}

TEST(GradStateTest, ItsPathIsTheTensorsWithTheFileLast) {
  EXPECT_EQ(grad_path("self.w"), "self.w.grad");
  EXPECT_EQ(grad_path("w (train.py)"), "w.grad (train.py)");
  EXPECT_EQ(grad_path("a tensor first used at net.py:3"),
            "the gradient of a tensor first used at net.py:3");
}

TEST(GradStateTest, TellsWhatABodyMayMeet) {
  const at::Tensor t = at::ones(3).requires_grad_();
  EXPECT_EQ(grad_state(t), GradState::none);
  t.mutable_grad() = at::ones(3);
  EXPECT_EQ(grad_state(t), GradState::tensor);
  t.mutable_grad() = at::ones(3).requires_grad_();
  EXPECT_EQ(grad_state(t), GradState::differentiable);
  t.mutable_grad() = at::ones(3).to_sparse();
  EXPECT_EQ(grad_state(t), GradState::other);
}

} // namespace
} // namespace tracehost::trace
