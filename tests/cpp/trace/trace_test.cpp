#include "shapes/fake_tensor.h"
#include "trace/tracer.h"

#include "program/places.h"
#include "program/program.h"
#include "support/frontend.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

namespace tracehost::trace {
namespace {

using test::FakeFrontend;
using test::kinds;
using test::replay;
using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

class TraceTest : public testing::Test {
protected:
  ~TraceTest() override {
    EXPECT_FALSE(active());
    EXPECT_FALSE(recording());
    EXPECT_FALSE(torch::jit::tracer::isTracing());
    EXPECT_TRUE(at::GradMode::is_enabled());
  }
  /// The error of an unsupported body.
  FakeFrontend::Rejected rejection(const std::function<Tensors()> &body) {
    try {
      trace({x}, {}, frontend, body);
    } catch (const FakeFrontend::Rejected &rejected) {
      return rejected;
    }
    ADD_FAILURE() << "nothing was rejected";
    return {Rejection::trace, ""};
  }

  FakeFrontend frontend;
  at::Tensor x = at::arange(4, at::kFloat), y = at::ones(4);
};

TEST_F(TraceTest, EachNodeHasTheLineThatRunsAsItsPlace) {
  const auto traced = trace({x}, {}, frontend, [&] {
    frontend.line = 3;
    const at::Tensor doubled = x * 2;
    frontend.line = 4;
    return Tensors{doubled.relu().sum()};
  });
  std::vector<std::string> places;
  for (const auto *node : traced.graph->nodes())
    if (node->kind() != c10::prim::Constant)
      places.push_back(place_of(*node));
  EXPECT_EQ(places, (std::vector<std::string>{"net.py:3", "net.py:4", "net.py:4"}));
}

TEST_F(TraceTest, RecordsWhatTheBodyDoesToItsSlots) {
  const auto traced = trace({x, y}, {}, frontend, [&] { return Tensors{x * 2 + y, y.sum()}; });
  EXPECT_EQ(kinds(*traced.graph),
            (std::vector<std::string>{"aten::mul", "aten::add", "aten::sum"}));
  EXPECT_EQ(traced.graph->inputs().size(), 2);
  EXPECT_TRUE(traced.captures.empty());
  const at::Tensor a = at::full(3, 5.0), b = at::full(3, 7.0);
  const auto results = replay(traced, 2, {a, b});
  EXPECT_TRUE(at::equal(results[0], a * 2 + b));
  EXPECT_TRUE(at::equal(results[1], b.sum()));
}

TEST_F(TraceTest, WithoutDataOpsRunOnFakeTensorsAndChangeNothing) {
  frontend.runs_nothing = true;
  const at::Tensor before = y.clone();
  const auto version = y._version();
  const auto traced =
      trace({shapes::contiguous_fake_tensor({4}, at::kFloat, at::kCPU)}, {}, frontend, [&] {
        y.add_(1);
        return Tensors{at::stack({x, y}).sum(), y};
      });
  EXPECT_TRUE(at::equal(y, before));
  EXPECT_EQ(y._version(), version);
  ASSERT_EQ(traced.captures.size(), 2);
  EXPECT_TRUE(traced.captures[0].tensor.is_same(y));
  EXPECT_TRUE(traced.captures[1].tensor.is_same(x));
  const at::Tensor a = at::zeros(4), b = at::zeros(4), c = at::ones(4);
  const auto results = replay(traced, 2, {a, b, c});
  EXPECT_EQ(results[0].item<float>(), 8);
  EXPECT_TRUE(results[1].is_same(b));
}

TEST_F(TraceTest, WithoutDataATensorThatChangesItsShapeInPlaceIsRejected) {
  frontend.runs_nothing = true;
  const auto rejected = rejection([&] { return Tensors{y.unsqueeze_(0)}; });
  EXPECT_THAT(rejected.what(),
              HasSubstr("changes the shape or requires_grad of a tensor in place"));
  EXPECT_EQ(y.dim(), 1);
}

TEST_F(TraceTest, RunsTheBodyForReal) {
  at::Tensor result;
  trace({x}, {}, frontend, [&] { return Tensors{result = x.add_(1)}; });
  EXPECT_TRUE(at::equal(x, at::arange(1, 5, at::kFloat)));
  EXPECT_TRUE(result.is_same(x));
}

TEST_F(TraceTest, MakesTrailingInputsOfTensorsFromOutside) {
  const at::Tensor w = at::full(4, 3.0), v = at::full(4, 4.0);
  const auto traced = trace({x}, {}, frontend, [&] { return Tensors{x * w + w * v}; });
  ASSERT_EQ(traced.captures.size(), 2);
  EXPECT_TRUE(traced.captures[0].tensor.is_same(w));
  EXPECT_EQ(traced.captures[0].path, "w0");
  EXPECT_TRUE(traced.captures[1].tensor.is_same(v));
  EXPECT_EQ(frontend.asked.size(), 2) << "each tensor is asked about once";
  EXPECT_TRUE(at::equal(replay(traced, 1, {y, v, w})[0], y * v + v * w));
}

TEST_F(TraceTest, TakesAnUntouchedTensorAsAResult) {
  const at::Tensor w = at::ones(2);
  const auto traced = trace({x}, {}, frontend, [&] { return Tensors{x, w}; });
  ASSERT_EQ(traced.captures.size(), 1);
  EXPECT_TRUE(replay(traced, 2, {y, w})[0].is_same(y));
}

TEST_F(TraceTest, LetsTheFrontEndRefuseACapture) {
  frontend.known_only = true;
  const at::Tensor w = at::ones(4);
  EXPECT_EQ(rejection([&] { return Tensors{x * w}; }).why, Rejection::capture);
}

TEST_F(TraceTest, RefusesAReadWithItsLine) {
  const auto rejected = rejection([&] { return Tensors{x * x.sum().item()}; });
  EXPECT_EQ(rejected.why, Rejection::value_read);
  EXPECT_THAT(rejected.what(), HasSubstr("the body reads the value of a traced tensor (aten::"));
  EXPECT_THAT(rejected.what(), HasSubstr(" at net.py:12, which a graph can't repeat."));
}

TEST_F(TraceTest, RefusesEveryOpThatGivesAPlainValue) {
  for (const auto &read : std::vector<std::function<void()>>{
           [&] { at::equal(x, y); }, [&] { x.is_nonzero(); }, [&] { at::allclose(x, y); }})
    EXPECT_EQ(rejection([&] { return read(), Tensors{x}; }).why, Rejection::value_read);
}

TEST_F(TraceTest, DoesNotTakeMetadataForARead) {
  const auto traced = trace({x}, {}, frontend, [&] {
    EXPECT_FALSE(at::is_complex(x));
    EXPECT_TRUE(at::is_floating_point(x));
    return Tensors{x * 2};
  });
  EXPECT_TRUE(at::equal(replay(traced, 1, {y})[0], y * 2));
}

TEST_F(TraceTest, RefusesASwallowedReadAllTheSame) {
  const auto rejected = rejection([&] {
    try {
      x.sum().item();
    } catch (const std::exception &) {
    }
    frontend.line = 99;
    return Tensors{x * 2};
  });
  EXPECT_EQ(rejected.why, Rejection::value_read);
  EXPECT_THAT(rejected.what(), HasSubstr("net.py:12"));
}

TEST_F(TraceTest, RepeatsARejectionForABodyThatEndedWithAnotherException) {
  EXPECT_EQ(rejection([&]() -> Tensors {
              try {
                x.sum().item();
              } catch (const std::exception &) {
                repeat_rejection();
              }
              return {};
            }).why,
            Rejection::value_read);
  trace({x}, {}, frontend, [&] { return repeat_rejection(), Tensors{x * 2}; });
}

TEST_F(TraceTest, RefusesASizeThatDependsOnValues) {
  EXPECT_EQ(rejection([&] {
              const auto places = x.nonzero();
              check_size_read(x, "size");
              check_size_read(places, "size");
              return Tensors{places};
            }).why,
            Rejection::value_read);
}

TEST_F(TraceTest, RecordsGradMode) {
  x.requires_grad_();
  const auto traced = trace({x}, {}, frontend, [&] {
    at::Tensor constant;
    {
      const at::NoGradGuard off;
      constant = x * 2;
    }
    return Tensors{constant, x * 3};
  });
  EXPECT_EQ(kinds(*traced.graph),
            (std::vector<std::string>{"aten::set_grad_enabled", "aten::mul",
                                      "aten::set_grad_enabled", "aten::mul"}));
  const auto results = replay(traced, 2, {at::ones(4).requires_grad_()});
  EXPECT_FALSE(results[0].requires_grad());
  EXPECT_TRUE(results[1].requires_grad());
}

TEST_F(TraceTest, KeepsUnusedRandomOps) {
  const auto traced = trace({x}, {}, frontend, [&] {
    at::rand({3});
    return Tensors{x + at::rand({4})};
  });
  EXPECT_EQ(traced.graph->outputs().size(), 1);
  const auto nodes = traced.graph->nodes();
  EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(),
                          [](const auto *node) {
                            return node->kind().toQualString() == std::string("tracehost::keep");
                          }),
            1);
  at::manual_seed(0);
  const auto results = replay(traced, 1, {y});
  ASSERT_EQ(results.size(), 1);
  const auto after = at::rand({1});
  at::manual_seed(0);
  at::rand({3});
  EXPECT_TRUE(at::equal(results[0], y + at::rand({4})));
  EXPECT_TRUE(at::equal(after, at::rand({1})));
}

TEST_F(TraceTest, TellsWhetherStridesOrLeavesWereRead) {
  const auto neither = trace({x}, {}, frontend, [&] { return Tensors{x * 2}; });
  EXPECT_FALSE(neither.reads_strides || neither.reads_leaf);
  const auto both = trace({x}, {}, frontend,
                          [&] { return note_strides_read(), note_leaf_read(), Tensors{x * 2}; });
  EXPECT_TRUE(both.reads_strides && both.reads_leaf);
}

TEST_F(TraceTest, DoesNotRecordWhilePaused) {
  const auto traced = trace({x}, {}, frontend, [&] {
    EXPECT_TRUE(recording() && active());
    {
      const Paused paused;
      EXPECT_FALSE(recording());
      EXPECT_TRUE(active());
      EXPECT_EQ(at::ones(2).sum().item<float>(), 2);
    }
    EXPECT_TRUE(recording());
    return Tensors{x * 2};
  });
  EXPECT_EQ(kinds(*traced.graph), std::vector<std::string>{"aten::mul"});
}

TEST_F(TraceTest, LeavesTheThreadFitForTheNextTraceWhateverTheBodyThrows) {
  EXPECT_THROW(trace({x}, {}, frontend, [&]() -> Tensors { throw std::out_of_range("mine"); }),
               std::out_of_range);
  EXPECT_THROW(trace({x}, {}, frontend, [&] { return Tensors{x.view({3})}; }), c10::Error);
  EXPECT_THROW(trace({x}, {}, frontend, [&]() -> Tensors { throw 5; }), int);
  const auto traced = trace({x}, {}, frontend, [&] { return Tensors{x * 2}; });
  EXPECT_TRUE(at::equal(replay(traced, 1, {y})[0], y * 2));
}

TEST_F(TraceTest, TracesOnTwoThreadsAtOnce) {
  std::latch both_inside(2), both_half(2);
  Traced results[2];
  const auto work = [&](int i) {
    FakeFrontend own;
    const at::Tensor in = at::ones(2);
    results[i] = trace({in}, {}, own, [&] {
      both_inside.arrive_and_wait();
      at::Tensor t = i ? in * 2 : in - 3;
      both_half.arrive_and_wait();
      return Tensors{i ? t.exp() : t.abs()};
    });
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(kinds(*results[0].graph), (std::vector<std::string>{"aten::sub", "aten::abs"}));
  EXPECT_EQ(kinds(*results[1].graph), (std::vector<std::string>{"aten::mul", "aten::exp"}));
}

TEST_F(TraceTest, DoesNotSeeOpsOfOtherThreads) {
  const auto traced = trace({x}, {}, frontend, [&] {
    std::thread([] { EXPECT_EQ(at::ones(3).sum().item<float>(), 3); }).join();
    return Tensors{x * 2};
  });
  EXPECT_EQ(kinds(*traced.graph), std::vector<std::string>{"aten::mul"});
}

} // namespace
} // namespace tracehost::trace
