#include "program/callback.h"
#include "program/program.h"
#include "support/frontend.h"
#include "trace/call.h"
#include "trace/eager_region.h"
#include "trace/tracer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tracehost::trace {
namespace {

using test::FakeFrontend;
using test::kinds;
using testing::ElementsAre;
using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

/// Doubles its input, and counts.
class Doubling final : public Callback {
public:
  explicit Doubling(std::vector<Result> results = {{at::kFloat, {{2}}}})
      : Callback("doubling", std::move(results)) {}
  Tensors call(Tensors inputs) override {
    ++calls;
    EXPECT_FALSE(active());
    return results.empty() ? Tensors() : Tensors{inputs[0] * 2};
  }
  int calls = 0;
};

class OutsideTest : public testing::Test {
protected:
  ~OutsideTest() override {
    EXPECT_FALSE(active());
    EXPECT_FALSE(recording());
    EXPECT_FALSE(in_eager_region());
    EXPECT_TRUE(at::GradMode::is_enabled());
  }
  Tensors called(const c10::intrusive_ptr<Doubling> &callback, const Tensors &inputs) {
    prepare_call(inputs);
    Tensors outputs;
    {
      const Called block;
      outputs = callback->call(inputs);
    }
    record_call(callback, inputs, outputs);
    return outputs;
  }

  FakeFrontend frontend;
  at::Tensor x = at::ones({2});
};

TEST_F(OutsideTest, AEagerRegionIsNotRecordedAndWhatItMakesIsACapture) {
  at::Tensor made;
  const auto traced = trace({x}, {}, frontend, [&] {
    const auto block = enter_eager_region();
    EXPECT_NE(block, 0U);
    EXPECT_FALSE(recording());
    EXPECT_TRUE(in_eager_region());
    EXPECT_EQ(enter_eager_region(), 0U);
    made = at::ones({2}) * 3;
    leave_eager_region(0);
    EXPECT_TRUE(in_eager_region());
    leave_eager_region(block);
    EXPECT_TRUE(recording());
    return Tensors{x * made};
  });
  EXPECT_THAT(kinds(*traced.graph), ElementsAre("aten::mul"));
  ASSERT_EQ(traced.captures.size(), 1U);
  EXPECT_TRUE(traced.captures[0].tensor.is_same(made));
  leave_eager_region(1);
  EXPECT_EQ(enter_eager_region(), 0U);
}

TEST_F(OutsideTest, AEagerRegionHasTheModesOfTheCall) {
  trace({x}, {}, frontend, [&] {
    const at::NoGradGuard no_grad;
    const auto block = enter_eager_region();
    EXPECT_TRUE(at::GradMode::is_enabled());
    leave_eager_region(block);
    EXPECT_FALSE(at::GradMode::is_enabled());
    return Tensors{x * 2};
  });
}

TEST_F(OutsideTest, AEagerRegionRefusesWhatTheTraceMadeAndNotItsCaptures) {
  const at::Tensor w = at::ones({2});
  const auto body = [&](bool slot) {
    return [&, slot] {
      const at::Tensor y = w * 2;
      const auto block = enter_eager_region();
      EXPECT_FALSE(is_traced(w));
      EXPECT_TRUE(is_traced(x));
      EXPECT_TRUE(is_traced(y));
      (w + 1).sum().item();
      (slot ? x : y).sum();
      leave_eager_region(block);
      return Tensors{y};
    };
  };
  for (const bool slot : {true, false}) {
    try {
      trace({x}, {}, frontend, body(slot));
      ADD_FAILURE() << "nothing was rejected";
    } catch (const FakeFrontend::Rejected &rejected) {
      EXPECT_THAT(rejected.what(), HasSubstr("a traced tensor is used in init_scope (aten::sum)"));
    }
  }
}

TEST_F(OutsideTest, AEagerRegionLeftOpenIsRejected) {
  try {
    trace({x}, {}, frontend, [&] {
      const at::NoGradGuard no_grad;
      enter_eager_region();
      return Tensors{at::ones({2})};
    });
    ADD_FAILURE() << "nothing was rejected";
  } catch (const FakeFrontend::Rejected &rejected) {
    EXPECT_THAT(rejected.what(), HasSubstr("(init_scope) at net.py:12 is still open"));
  }
}

TEST_F(OutsideTest, ACallIsANodeThatEachRunCallsOnce) {
  const auto callback = c10::make_intrusive<Doubling>();
  auto traced = trace({x}, {}, frontend, [&] {
    const Tensors doubled = called(callback, {x});
    called(callback, {x});
    return Tensors{doubled[0] + 1};
  });
  EXPECT_EQ(callback->calls, 2);
  torch::jit::EliminateDeadCode(traced.graph);
  const Program program(traced.graph, "f", 1);
  EXPECT_TRUE(program.calls_python());
  const auto names = kinds(program.graph());
  EXPECT_EQ(std::count(names.begin(), names.end(), "tracehost::py_function"), 2);
  torch::jit::Stack stack{x + 4};
  program.run(stack);
  EXPECT_EQ(callback->calls, 4);
  EXPECT_TRUE(at::equal(stack[0].toTensor(), at::full({2}, 11.0F)));
  EXPECT_EQ(callback.use_count(), callback->owners);
}

TEST_F(OutsideTest, ACallGoesWithItsProgram) {
  auto callback = c10::make_intrusive<Doubling>(std::vector<Callback::Result>{});
  const c10::weak_intrusive_ptr<Doubling> weak(callback);
  {
    auto traced = trace({x}, {}, frontend, [&] {
      called(callback, {x});
      return Tensors{x + 1};
    });
    callback.reset();
    const Program program(std::move(traced.graph), "f", 1);
    EXPECT_FALSE(weak.expired());
  }
  EXPECT_TRUE(weak.expired());
}

TEST_F(OutsideTest, ACallThatRaisedRefusesABodyThatGoesOn) {
  try {
    trace({x}, {}, frontend, [&] {
      note_raised("it raised");
      return Tensors{x + 1};
    });
    ADD_FAILURE() << "nothing was rejected";
  } catch (const FakeFrontend::Rejected &rejected) {
    EXPECT_STREQ(rejected.what(), "it raised");
  }
}

TEST_F(OutsideTest, SizesOfAResultAreKnownOnlyIfPromised) {
  const auto sized = c10::make_intrusive<Doubling>();
  const auto free = c10::make_intrusive<Doubling>(std::vector<Callback::Result>{{at::kFloat, {}}});
  const auto reads = [&](const auto &callback) {
    return [&] {
      check_size_read(called(callback, {x})[0], "size");
      return Tensors{x};
    };
  };
  trace({x}, {}, frontend, reads(sized)).graph->lint();
  EXPECT_THROW(trace({x}, {}, frontend, reads(free)), FakeFrontend::Rejected);
}

} // namespace
} // namespace tracehost::trace
