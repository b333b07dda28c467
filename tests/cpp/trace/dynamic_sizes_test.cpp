#include "trace/tracer.h"

#include "program/program.h"
#include "support/frontend.h"

#include <ATen/ATen.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tracehost::trace {
namespace {

using test::FakeFrontend;
using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

Tensors replay(const Traced &traced, Tensors inputs) {
  for (const Capture &c : traced.captures)
    inputs.push_back(c.tensor);
  return test::replay(traced, traced.graph->outputs().size(), inputs);
}

class DynamicSizesTest : public testing::Test {
protected:
  FakeFrontend frontend;
  at::Tensor x = at::arange(24, at::kFloat).view({8, 3});
  DynamicDimensions rows{{{0, 0}}, {}, MaySpecialize::all, {"x", "y"}};
};

TEST_F(DynamicSizesTest, TellsTracedSizesFromExactOnes) {
  const auto traced = trace({x}, rows, frontend, [&] {
    EXPECT_FALSE(traced_size(x, 1));
    const auto n = traced_size(x, 0);
    EXPECT_TRUE(n && is_traced_size(*n));
    const auto doubled = at::cat({x, x}, 1);
    EXPECT_FALSE(traced_size(doubled, 1));
    EXPECT_TRUE(traced_size(doubled, 0));
    EXPECT_FALSE(is_traced_size(doubled));
    return Tensors{x.sum(0) / *n, *n};
  });
  EXPECT_TRUE(traced.specialized.empty() && traced.conditions.empty() && traced.notes.empty());
  const auto other = at::randn({5, 3});
  const auto results = replay(traced, {other});
  EXPECT_TRUE(at::equal(results[0], other.sum(0) / 5));
  EXPECT_EQ(results[1].item<std::int64_t>(), 5);
}

TEST_F(DynamicSizesTest, AComparisonBecomesACondition) {
  const auto traced = trace({x}, rows, frontend, [&] {
    const auto n = *traced_size(x, 0);
    EXPECT_TRUE((n > 4).is_nonzero());
    EXPECT_TRUE((n.remainder(2) == 0).is_nonzero());
    EXPECT_TRUE((n == *traced_size(x * 2, 0)).is_nonzero());
    return Tensors{x * 2};
  });
  ASSERT_EQ(traced.conditions.size(), 2);
  EXPECT_EQ(traced.conditions[0].where, "net.py:12");
  EXPECT_TRUE(traced.specialized.empty());
}

TEST_F(DynamicSizesTest, ACaptureHasAnySize) {
  const at::Tensor weight = at::ones({8, 3}), unused = at::ones({8});
  rows.dimensions.clear();
  rows.captures = {{unused, "self.unused", {0}}, {weight, "self.weight", {0}}};
  const auto traced = trace({x}, rows, frontend, [&] {
    EXPECT_FALSE(traced_size(x, 0));
    const auto n = traced_size(weight, 0);
    EXPECT_TRUE(n && is_traced_size(*n));
    EXPECT_TRUE((*n > 4).is_nonzero());
    return Tensors{weight * 2, *n};
  });
  EXPECT_EQ(traced.dynamic_captures, (std::vector{DynamicDimensions::Dimension{1, 0}}));
  ASSERT_EQ(traced.captures.size(), 1);
  ASSERT_EQ(traced.conditions.size(), 1);
  EXPECT_EQ(traced.conditions[0].expression[1].slot, 1);
  const auto results = test::replay(traced, traced.graph->outputs().size(), {x, at::ones({5, 3})});
  EXPECT_EQ(results[0].size(0), 5);
  EXPECT_EQ(results[1].item<std::int64_t>(), 5);
}

TEST_F(DynamicSizesTest, AnItemSpecializesAndALaterSizeIsExact) {
  const auto traced = trace({x}, rows, frontend, [&] {
    EXPECT_EQ(specialize_size(*traced_size(x, 0), "int()"), 8);
    EXPECT_FALSE(traced_size(x, 0));
    EXPECT_FALSE(traced_size(x * 2, 0));
    return Tensors{x * 2};
  });
  ASSERT_EQ(traced.specialized.size(), 1);
  EXPECT_EQ(traced.specialized[0].dimension, (DynamicDimensions::Dimension{0, 0}));
  EXPECT_EQ(traced.specialized[0].why, "int()");
  EXPECT_EQ(text(traced.specialized[0].where), "net.py:12");
}

} // namespace
} // namespace tracehost::trace
