#include "staging/branches.h"
#include "staging/loop.h"
#include "staging/select.h"

#include "program/checks.h"
#include "program/ops.h"
#include "program/program.h"
#include "support/frontend.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tracehost::staging {
namespace {

using test::FakeFrontend;
using test::number;
using test::replay;
using testing::HasSubstr;
using trace::Traced;
using Tensors = std::vector<at::Tensor>;

class StagingTest : public testing::Test {
protected:
  ~StagingTest() override {
    EXPECT_FALSE(trace::active());
    EXPECT_FALSE(torch::jit::tracer::isTracing());
    EXPECT_TRUE(at::GradMode::is_enabled());
  }
  Traced trace(const Tensors &slots, const std::function<Tensors()> &body) {
    return trace::trace(slots, {}, frontend, body);
  }
  /// `x.sum() > 0 ? then(x) : otherwise(x)`
  at::Tensor choose(const std::function<at::Tensor()> &then,
                    const std::function<at::Tensor()> &otherwise) {
    Branches branches(x.sum() > 0, "if", "net.py:12");
    at::Tensor a, b;
    const auto i = branches.run(Branches::then, [&] { return Tensors{a = then()}; });
    if (branches.taken())
      return a;
    const auto j = branches.run(Branches::otherwise, [&] { return Tensors{b = otherwise()}; });
    return branches.join(i, j, branches.condition().value_or(true) ? a : b);
  }
  /// Adds `step(value)` to itself `n` times.
  at::Tensor repeat(const at::Tensor &n, const at::Tensor &initial,
                    const std::function<at::Tensor(const at::Tensor &, const at::Tensor &)> &step) {
    Loop loop({n, {}, -1}, {initial});
    loop.body({std::vector<bool>(initial.dim())},
              [&](const at::Tensor &index, const Tensors &carried) {
                return Loop::Next{{}, {step(carried[0], index)}};
              });
    return loop.finish()[0];
  }
  FakeFrontend::Rejected rejection(const std::function<Tensors()> &body) {
    try {
      trace({x}, body);
    } catch (const FakeFrontend::Rejected &rejected) {
      return rejected;
    }
    ADD_FAILURE() << "nothing was rejected";
    return {trace::Rejection::trace, ""};
  }

  FakeFrontend frontend;
  at::Tensor x = at::arange(1, 5, at::kFloat);
};

TEST_F(StagingTest, BothBranchesAreInTheGraphAndOneHappens) {
  at::Tensor result;
  const auto traced = trace(
      {x}, [&] { return Tensors{result = choose([&] { return x * 2; }, [&] { return x - 1; })}; });
  EXPECT_TRUE(at::equal(result, x * 2));
  for (const at::Tensor &v : {x, -x, x - 100})
    EXPECT_TRUE(at::equal(replay(traced, 1, {v})[0], v.sum().item<float>() > 0 ? v * 2 : v - 1));
}

TEST_F(StagingTest, TheBranchNotTakenChangesNothing) {
  const at::Tensor before = x.clone();
  const auto traced =
      trace({x}, [&] { return Tensors{choose([&] { return x + 0; }, [&] { return x.mul_(3); })}; });
  EXPECT_TRUE(at::equal(x, before));
  at::Tensor v = -before;
  EXPECT_TRUE(at::equal(replay(traced, 1, {v})[0], before * -3));
  EXPECT_TRUE(at::equal(v, before * -3)); // where it is taken, it does
}

TEST_F(StagingTest, GradientsFlowThroughTheBranchTaken) {
  const auto traced =
      trace({x}, [&] { return Tensors{choose([&] { return x * x; }, [&] { return x * 5; })}; });
  for (const float sign : {1.F, -1.F}) {
    at::Tensor v = (x * sign).detach().requires_grad_();
    replay(traced, 1, {v})[0].sum().backward();
    EXPECT_TRUE(at::allclose(v.grad(), sign > 0 ? v.detach() * 2 : at::full(4, 5.0)));
  }
}

TEST_F(StagingTest, ACaptureFirstUsedInABlockIsOneInputForAll) {
  const at::Tensor w = at::full(4, 2.0);
  const auto traced =
      trace({x}, [&] { return Tensors{choose([&] { return x * w; }, [&] { return w - 1; }) + w}; });
  EXPECT_EQ(traced.captures.size(), 1);
  EXPECT_TRUE(at::equal(replay(traced, 1, {-x, w})[0], w - 1 + w));
}

TEST_F(StagingTest, ABranchThatIsOpenedIsPartOfWhatIsAroundIt) {
  const auto traced = trace({x}, [&] {
    Branches branches(x.sum() > 0, "if", "net.py:12");
    at::Tensor before, after;
    branches.run(Branches::then, [&] {
      before = x * 2;
      branches.check();
      branches.open();
      after = before + 1;
      return Tensors{};
    });
    EXPECT_TRUE(branches.taken());
    return Tensors{before + after};
  });
  ASSERT_EQ(traced.checked.size(), 1);
  EXPECT_EQ(traced.checked[0].where, "net.py:12");
  EXPECT_EQ(traced.checked[0].value, "True");
  for (const torch::jit::Node *node : traced.graph->nodes())
    EXPECT_NE(node->kind(), c10::prim::If);
  EXPECT_TRUE(at::equal(replay(traced, 1, {x})[0], x * 4 + 1));
  EXPECT_THROW(replay(traced, 1, {-x}), CheckFailed);
}

TEST_F(StagingTest, ABranchThatRaisesHasNoResults) {
  const auto traced = trace({x}, [&] {
    Branches branches(x.sum() > 0, "if", "net.py:12");
    at::Tensor a;
    const auto i = branches.run(Branches::then, [&] { return Tensors{a = x * 2}; });
    branches.raise(Branches::otherwise, "builtins:ValueError", "negative", "",
                   {"/home/user/net.py", 14});
    return Tensors{branches.join(i, Branches::kNone, a)};
  });
  EXPECT_TRUE(at::equal(replay(traced, 1, {x})[0], x * 2));
  try {
    replay(traced, 1, {-x});
    ADD_FAILURE() << "nothing was raised";
  } catch (const Raised &raised) {
    EXPECT_EQ(raised.type(), "builtins:ValueError");
    EXPECT_STREQ(raised.what(), "negative");
  }
  EXPECT_EQ(Program::take_failed_at(), "net.py:14");
}

TEST_F(StagingTest, ATensorThatLeavesABlockBesidesItsResultsIsRejected) {
  at::Tensor kept;
  const auto rejected = rejection([&] {
    choose([&] { return kept = x * 2; }, [&] { return x - 1; });
    return Tensors{kept + 1};
  });
  EXPECT_EQ(rejected.why, trace::Rejection::staging);
  EXPECT_THAT(rejected.what(), HasSubstr("net.py:12 was made in a branch or loop that is staged"));
}

TEST_F(StagingTest, ABranchThatSwitchesGradModeForGoodIsChecked) {
  const auto traced = trace({x}, [&] {
    const at::AutoGradMode restore(true);
    return Tensors{choose(
        [&] {
          at::GradMode::set_enabled(false);
          return x * 2;
        },
        [&] { return x - 1; })};
  });
  EXPECT_EQ(traced.checked.size(), 1);
}

TEST_F(StagingTest, GradModeSwitchedForGoodInABranchThatIsNotTakenIsRejected) {
  const auto rejected = rejection([&] {
    return Tensors{choose([&] { return x * 2; },
                          [&] {
                            at::GradMode::set_enabled(false);
                            return x - 1;
                          })};
  });
  EXPECT_TRUE(at::GradMode::is_enabled());
  EXPECT_THAT(
      rejected.what(),
      HasSubstr("changes grad mode, inference mode or autocast for what comes after it, at"));
}

TEST_F(StagingTest, AutocastIsAsBeforeARejectedBranch) {
  rejection([&] {
    return Tensors{choose([&] { return x * 2; },
                          [&] {
                            at::autocast::set_autocast_cache_enabled(false);
                            return x - 1;
                          })};
  });
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  at::autocast::set_autocast_cache_enabled(true);
}

TEST_F(StagingTest, ModesOfABranchAreItsOwn) {
  const auto traced = trace({x}, [&] {
    return Tensors{choose(
                       [&] {
                         const at::NoGradGuard off;
                         return x * 2;
                       },
                       [&] { return x * 3; }) +
                   x};
  });
  for (const float sign : {1.F, -1.F}) {
    at::Tensor v = (x * sign).detach().requires_grad_();
    replay(traced, 1, {v})[0].sum().backward();
    EXPECT_TRUE(at::equal(v.grad(), at::full(4, sign > 0 ? 1.0 : 4.0)));
    EXPECT_TRUE(at::GradMode::is_enabled());
  }
}

TEST_F(StagingTest, ARandomResultThatNothingUsesStillAdvancesTheGenerator) {
  const auto traced = trace({x}, [&] {
    return Tensors{choose(
        [&] {
          at::rand({3});
          return x * 2;
        },
        [&] { return x - 1; })};
  });
  const auto next = [&](const std::function<void()> &first) {
    at::manual_seed(5);
    first();
    return at::rand({2});
  };
  const at::Tensor expected = next([] { at::rand({3}); });
  EXPECT_TRUE(at::equal(next([&] { replay(traced, 1, {x}); }), expected));
  EXPECT_FALSE(at::equal(next([&] { replay(traced, 1, {-x}); }), expected));
}

TEST_F(StagingTest, ALoopRunsAsOftenAsItsCountSays) {
  at::Tensor n = number(3), result;
  const auto traced = trace({x, n}, [&] {
    return Tensors{
        result = repeat(n, x, [](const at::Tensor &v, const at::Tensor &i) { return v * 2 + i; })};
  });
  const auto expected = [&](std::int64_t count) {
    at::Tensor v = x;
    for (std::int64_t i = 0; i < count; ++i)
      v = v * 2 + i;
    return v;
  };
  EXPECT_TRUE(at::equal(result, expected(3)));
  for (const std::int64_t count : {0, 1, 7})
    EXPECT_TRUE(at::equal(replay(traced, 1, {x, number(count)})[0], expected(count)));
}

TEST_F(StagingTest, ALoopWithNoIterationAtTheTraceIsWhole) {
  at::Tensor n = number(0);
  const auto traced = trace({x, n}, [&] {
    return Tensors{repeat(n, x, [](const at::Tensor &v, const at::Tensor &) { return v + 1; })};
  });
  EXPECT_TRUE(at::equal(replay(traced, 1, {x, number(2)})[0], x + 2));
}

TEST_F(StagingTest, ALoopEndsWithItsCondition) {
  const auto traced = trace({x}, [&] {
    Loop loop({{}, x.sum() < 100, -1}, {x});
    loop.body({{false}}, [&](const at::Tensor &, const Tensors &carried) {
      const at::Tensor next = carried[0] * 2;
      return Loop::Next{next.sum() < 100, {next}};
    });
    return loop.finish();
  });
  for (const float scale : {0.1F, 1.F, 50.F}) {
    at::Tensor v = x * scale;
    const at::Tensor result = replay(traced, 1, {v})[0];
    while (v.sum().item<float>() < 100)
      v = v * 2;
    EXPECT_TRUE(at::equal(result, v));
  }
}

TEST_F(StagingTest, GradientsFlowThroughALoop) {
  at::Tensor n = number(2);
  const auto traced = trace({x, n}, [&] {
    return Tensors{repeat(n, x, [&](const at::Tensor &v, const at::Tensor &) { return v * x; })};
  });
  at::Tensor v = x.detach().clone().requires_grad_();
  replay(traced, 1, {v, number(3)})[0].sum().backward();
  EXPECT_TRUE(at::allclose(v.grad(), 4 * v.detach().pow(3)));
}

TEST_F(StagingTest, ALoopChangesTensorsFromAroundItOnceForEachIteration) {
  at::Tensor n = number(3), total = at::zeros({});
  const auto traced = trace({x, n, total}, [&] {
    repeat(n, x, [&](const at::Tensor &v, const at::Tensor &) {
      total.add_(1);
      return v + 0;
    });
    return Tensors{total * 1};
  });
  EXPECT_EQ(total.item<float>(), 3);
  at::Tensor fresh = at::zeros({});
  EXPECT_EQ(replay(traced, 1, {x, number(5), fresh})[0].item<float>(), 5);
  EXPECT_EQ(fresh.item<float>(), 5);
}

TEST_F(StagingTest, LoopsAndBranchesNest) {
  at::Tensor n = number(4);
  const auto traced = trace({x, n}, [&] {
    return Tensors{repeat(n, x, [&](const at::Tensor &v, const at::Tensor &) {
      Branches branches(v.sum() > 20, "if", "net.py:12");
      at::Tensor a, b;
      const auto i = branches.run(Branches::then, [&] { return Tensors{a = v / 2}; });
      const auto j = branches.run(Branches::otherwise, [&] {
        return Tensors{
            b = repeat(n, v, [](const at::Tensor &w, const at::Tensor &) { return w + 1; })};
      });
      EXPECT_FALSE(branches.condition());
      return branches.join(i, j, a);
    })};
  });
  at::Tensor expected = x;
  for (int i = 0; i < 5; ++i)
    expected = expected.sum().item<float>() > 20 ? expected / 2 : expected + 5;
  EXPECT_TRUE(at::equal(replay(traced, 1, {x, number(5)})[0], expected));
}

TEST_F(StagingTest, OfADiscardedLoopNothingStays) {
  at::Tensor n = number(2), total = at::zeros({});
  const auto traced = trace({x, n, total}, [&] {
    Loop first({n, {}, -1}, {x});
    first.body({{false}}, [&](const at::Tensor &, const Tensors &carried) {
      total.add_(1);
      return Loop::Next{{}, carried};
    });
    first.discard();
    return Tensors{x + total};
  });
  EXPECT_EQ(total.item<float>(), 0);
  EXPECT_EQ(replay(traced, 1, {x, n, total})[0].sum().item<float>(), 10);
}

TEST_F(StagingTest, ASelectedRowIsAViewAtEachCallsIndex) {
  at::Tensor m = at::arange(6, at::kFloat).view({3, 2}), i = number(1);
  const auto traced = trace({m, i}, [&] {
    const at::Tensor row = select(m, 0, i);
    row.add_(10);
    return Tensors{m * 1};
  });
  EXPECT_EQ(m.sum().item<float>(), 15 + 20);
  at::Tensor other = at::zeros({3, 2});
  replay(traced, 1, {other, number(-1)});
  EXPECT_TRUE(at::equal(other, at::tensor({0, 0, 0, 0, 10, 10}, at::kFloat).view({3, 2})));
  EXPECT_THROW(replay(traced, 1, {other, number(3)}), c10::IndexError);
  Program::take_failed_at();
}

} // namespace
} // namespace tracehost::staging
