#include "support/entries.h"

#include "tracehost/batcher.h"

#include <ATen/ATen.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <vector>

namespace tracehost {
namespace {

using namespace std::chrono_literals;
using test::call;
using test::graph_for;
using test::tensor;
using test::Tensors;

/// Longer than any test: a batch runs when it is full.
constexpr auto never = 1h;

class RuntimeBatcher : public testing::Test {
protected:
  static TensorMeta any_rows(std::int64_t columns) {
    TensorMeta made = test::meta({3, columns});
    made.make_dynamic(0);
    return made;
  }
  static at::Tensor rows(double value, std::int64_t count, std::int64_t columns = 2) {
    return at::full({count, columns}, value);
  }

  test::FakeSink sink;
  Function doubles =
      test::loaded({graph_for(call({{"x", tensor(0, any_rows(2))}}), {at::ones({3, 2})},
                              [](const Tensors &in) -> Tensors { return {in[0] * 2}; })},
                   sink);
};

TEST_F(RuntimeBatcher, RunsRequestsTogether) {
  Batcher batched(doubles, 6, never);
  auto a = batched.async(rows(1, 1)), b = batched.async(rows(2, 2)), c = batched.async(rows(3, 3));
  EXPECT_TRUE(at::equal(at::Tensor(a.get()), rows(2, 1)));
  EXPECT_TRUE(at::equal(at::Tensor(b.get()), rows(4, 2)));
  EXPECT_TRUE(at::equal(at::Tensor(c.get()), rows(6, 3)));
  EXPECT_EQ(batched.counts().requests, 3);
  EXPECT_EQ(batched.counts().runs, 1);
  EXPECT_EQ(batched.counts().rows, 6);
  EXPECT_EQ(doubles.stats().hits, 1);
}

TEST_F(RuntimeBatcher, LeavesOutWhatIsTooMuch) {
  std::future<Value> left;
  {
    Batcher batched(doubles, 4, never);
    auto first = batched.async(rows(1, 3));
    left = batched.async(rows(2, 2));
    const auto third = batched.async(rows(3, 1));
    EXPECT_TRUE(at::equal(at::Tensor(first.get()), rows(2, 3)));
    EXPECT_EQ(batched.counts().rows, 4);
  }
  EXPECT_TRUE(at::equal(at::Tensor(left.get()), rows(4, 2)));
}

TEST_F(RuntimeBatcher, RunsWhatWaitsAtItsDeadline) {
  Batcher batched(doubles, 1000, 1ms);
  EXPECT_TRUE(at::equal(at::Tensor(batched(rows(1, 2))), rows(2, 2)));
}

TEST_F(RuntimeBatcher, RunsWhatWaitsAtTheEnd) {
  std::future<Value> left;
  {
    Batcher batched(doubles, 1000, never);
    left = batched.async(rows(1, 2));
  }
  EXPECT_TRUE(at::equal(at::Tensor(left.get()), rows(2, 2)));
}

TEST_F(RuntimeBatcher, WaitsAsLongAsItMay) {
  Batcher batched(doubles, 2, std::chrono::microseconds::max());
  auto a = batched.async(rows(1, 1)), b = batched.async(rows(2, 1));
  EXPECT_TRUE(at::equal(at::Tensor(a.get()), rows(2, 1)));
  EXPECT_TRUE(at::equal(at::Tensor(b.get()), rows(4, 1)));
  EXPECT_EQ(batched.counts().runs, 1);
}

TEST_F(RuntimeBatcher, TakesNoMoreThanMayWait) {
  std::vector<std::future<Value>> taken;
  {
    Batcher batched(doubles, 1000, never, 2);
    taken.push_back(batched.async(rows(1, 1)));
    taken.push_back(batched.async(rows(2, 1)));
    EXPECT_THROW(
        {
          try {
            batched.async(rows(3, 1));
          } catch (const Overloaded &e) {
            EXPECT_STREQ(e.what(), "f: 2 requests wait already, and max_waiting is 2. Call again "
                                   "later, on another Batcher, or raise max_waiting.");
            throw;
          }
        },
        Overloaded);
    EXPECT_EQ(batched.counts().requests, 2);
  }
  EXPECT_TRUE(at::equal(at::Tensor(taken[0].get()), rows(2, 1)));
  EXPECT_TRUE(at::equal(at::Tensor(taken[1].get()), rows(4, 1)));
}

TEST_F(RuntimeBatcher, GivesAnExceptionToTheRequestThatCausesIt) {
  const auto picks = test::loaded({graph_for(call({{"i", tensor(0,
                                                                [] {
                                                                  TensorMeta made =
                                                                      test::meta({3}, at::kLong);
                                                                  made.make_dynamic(0);
                                                                  return made;
                                                                }())}}),
                                             {at::zeros(3, at::kLong)},
                                             [](const Tensors &in) -> Tensors {
                                               return {at::arange(3).index_select(0, in[0])};
                                             })},
                                  sink);
  Batcher batched(picks, 3, never);
  auto a = batched.async(at::full(1, 2, at::kLong)), b = batched.async(at::full(1, 9, at::kLong)),
       c = batched.async(at::full(1, 1, at::kLong));
  EXPECT_EQ(at::Tensor(a.get()).item<int>(), 2);
  EXPECT_THROW(b.get(), OpError);
  EXPECT_EQ(at::Tensor(c.get()).item<int>(), 1);
}

TEST_F(RuntimeBatcher, KeepsApartWhatDoesNotGoTogether) {
  Batcher batched(doubles, 2, never);
  auto other = batched.async(rows(1, 2, 7)); // no graph takes seven columns
  auto a = batched.async(rows(1, 1)), b = batched.async(rows(2, 1));
  EXPECT_THROW(other.get(), SignatureError);
  EXPECT_TRUE(at::equal(at::Tensor(a.get()), rows(2, 1)));
  EXPECT_TRUE(at::equal(at::Tensor(b.get()), rows(4, 1)));
  EXPECT_EQ(batched.counts().runs, 2);
}

TEST_F(RuntimeBatcher, RunsByItselfWhatHasNoRows) {
  const auto sum =
      test::loaded({graph_for(call({{"x", tensor(0, test::meta({}))}}), {at::ones({})},
                              [](const Tensors &in) -> Tensors { return {in[0] + 1}; })},
                   sink);
  Batcher batched(sum, 8, never);
  EXPECT_EQ(at::Tensor(batched(at::zeros({}))).item<float>(), 1);
}

TEST_F(RuntimeBatcher, RunsOneByOneWhereTheResultIsNotByRow) {
  const auto sums =
      test::loaded({graph_for(call({{"x", tensor(0, any_rows(2))}}), {at::ones({3, 2})},
                              [](const Tensors &in) -> Tensors { return {in[0].sum()}; })},
                   sink);
  Batcher batched(sums, 2, never);
  auto a = batched.async(rows(1, 1)), b = batched.async(rows(2, 1));
  EXPECT_EQ(at::Tensor(a.get()).item<float>(), 2);
  EXPECT_EQ(at::Tensor(b.get()).item<float>(), 4);
}

} // namespace
} // namespace tracehost
