#include "staging/tensor_array.h"

#include "program/program.h"
#include "staging/branches.h"
#include "staging/loop.h"
#include "support/frontend.h"

#include <ATen/ATen.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace tracehost::staging {
namespace {

using test::FakeFrontend;
using test::number;
using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

at::Tensor replay(const trace::Traced &traced, const Tensors &inputs) {
  const Program program(traced.graph, "test", 1);
  torch::jit::Stack stack(inputs.begin(), inputs.end());
  program.run(stack);
  return stack.at(0).toTensor();
}

class TensorArrayTest : public testing::Test {
protected:
  ~TensorArrayTest() override { EXPECT_FALSE(trace::active()); }
  trace::Traced trace(const Tensors &slots, const std::function<at::Tensor()> &body) {
    return trace::trace(slots, {}, frontend, [&] { return Tensors{body()}; });
  }
  /// Runs `body(index)` in a loop of the graph.
  static void repeat(const at::Tensor &n, const std::function<void(const at::Tensor &)> &body) {
    Loop loop({n, {}, -1}, {});
    loop.body({}, [&](const at::Tensor &index, const Tensors &) {
      body(index);
      return Loop::Next{{}, {}};
    });
    loop.finish();
  }

  FakeFrontend frontend;
  at::Tensor x = at::arange(3, at::kFloat);
};

TEST_F(TensorArrayTest, ALoopAppendsToAListThatItDoesNotCarry) {
  const at::Tensor n = number(2);
  at::Tensor actual;
  const auto traced = trace({x, n}, [&] {
    TensorArray array(0);
    array.append(x);
    repeat(n, [&](const at::Tensor &i) { array.write(i + 1, x * 2); });
    return actual = array.stack();
  });
  EXPECT_TRUE(at::equal(actual, at::stack({x, x * 2, x * 2})));
  for (const std::int64_t count : {0, 1, 4}) {
    Tensors rows{x};
    for (std::int64_t i = 0; i < count; ++i)
      rows.push_back(x * 2);
    EXPECT_TRUE(at::equal(replay(traced, {x, number(count)}), at::stack(rows))) << count;
  }
}

TEST_F(TensorArrayTest, ALoopReadsWhatItHasWritten) {
  const at::Tensor n = number(3);
  const auto traced = trace({x, n}, [&] {
    TensorArray array(0);
    array.write(0, x);
    repeat(n, [&](const at::Tensor &i) { array.write(i + 1, array.read(i) * 2); });
    return array.read(n);
  });
  for (const std::int64_t count : {0, 2, 5})
    EXPECT_TRUE(at::equal(replay(traced, {x, number(count)}), x * (1 << count))) << count;
}

TEST_F(TensorArrayTest, ABranchThatIsNotTakenChangesNothing) {
  at::Tensor actual;
  const auto traced = trace({x}, [&] {
    TensorArray array(0);
    array.append(x);
    Branches branches(x.sum() > 100, "if", "net.py:12");
    branches.run(Branches::then, [&] { return array.append(x * 5), Tensors{}; });
    branches.run(Branches::otherwise, [] { return Tensors{}; });
    return actual = array.stack();
  });
  EXPECT_TRUE(at::equal(actual, at::stack({x})));
  const at::Tensor large = x + 100;
  EXPECT_TRUE(at::equal(replay(traced, {large}), at::stack({large, large * 5})));
}

TEST_F(TensorArrayTest, EachRunHasAListOfItsOwn) {
  const auto traced = trace({x}, [&] {
    TensorArray array(0);
    array.append(x);
    return array.stack();
  });
  for (int run = 0; run < 3; ++run)
    EXPECT_EQ(replay(traced, {x}).size(0), 1);
}

TEST_F(TensorArrayTest, TheSizeIsANumberUntilAnotherBlockAppends) {
  at::Tensor size;
  trace({x, number(2)}, [&] {
    TensorArray array(0), fixed(4);
    array.append(x);
    EXPECT_EQ(std::get<std::int64_t>(array.size()), 1);
    repeat(number(2), [&](const at::Tensor &i) {
      EXPECT_TRUE(std::holds_alternative<at::Tensor>(array.size()));
      array.append(x);
      fixed.write(i, x);
    });
    size = std::get<at::Tensor>(array.size());
    EXPECT_EQ(std::get<std::int64_t>(fixed.size()), 4);
    return x + 1;
  });
  EXPECT_EQ(size.item<std::int64_t>(), 3);
}

TEST_F(TensorArrayTest, WhatIsNotWrittenIsAnErrorAtEachRun) {
  const at::Tensor n = number(2);
  const auto traced = trace({x, n}, [&] {
    TensorArray array(2);
    repeat(n, [&](const at::Tensor &i) { array.write(i, x); });
    return array.stack();
  });
  EXPECT_EQ(replay(traced, {x, n}).size(0), 2);
  for (const auto &[count, text] :
       {std::pair{1, "whose element 1 of 2 is not written"},
        std::pair{3, "element 2 is written to a TensorArray of size 2"}})
    try {
      replay(traced, {x, number(count)});
      ADD_FAILURE() << count;
    } catch (const c10::Error &e) {
      EXPECT_THAT(e.what(), HasSubstr(text));
    }
}

TEST_F(TensorArrayTest, AnArrayOfABlockStaysThere) {
  std::optional<TensorArray> leaked;
  try {
    trace({x, number(2)}, [&] {
      repeat(number(2), [&](const at::Tensor &) {
        leaked.emplace(0);
        leaked->append(x);
      });
      return leaked->stack();
    });
    ADD_FAILURE() << "nothing was rejected";
  } catch (const FakeFrontend::Rejected &rejected) {
    EXPECT_EQ(rejected.why, trace::Rejection::staging);
    EXPECT_THAT(rejected.what(), HasSubstr("used outside of it. Make it before the block."));
  }
}

TEST_F(TensorArrayTest, AfterItsTraceItIsAList) {
  std::optional<TensorArray> kept;
  trace({x}, [&] {
    kept.emplace(0);
    kept->append(x);
    return x + 1;
  });
  kept->append(x);
  EXPECT_EQ(std::get<std::int64_t>(kept->size()), 2);
  EXPECT_TRUE(at::equal(kept->stack(), at::stack({x, x})));
}

} // namespace
} // namespace tracehost::staging
