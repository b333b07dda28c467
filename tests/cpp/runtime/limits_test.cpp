#include "support/endless.h"
#include "support/entries.h"

#include "tracehost/tracehost.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

// What ends calls: interrupt(), a stop token, a deadline.

namespace tracehost {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::call;
using test::graph_for;
using test::integer;
using test::meta;
using test::tensor;
using test::Tensors;

/// As test::endless(), but the loop writes to nothing.
std::shared_ptr<torch::jit::Graph> endless_reader() {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(R"IR(graph(%x : Tensor):
  %turns : int = prim::Constant[value=9000000000000000000]()
  %on : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %last : Tensor = prim::Loop(%turns, %on, %x)
    block0(%i : int, %before : Tensor):
      %y : Tensor = aten::add(%x, %one, %one)
      -> (%on, %y)
  return (%last))IR",
                      graph.get());
  return graph;
}

class RuntimeLimits : public testing::Test {
protected:
  /// f(x, n): n == 1 never ends and writes to x, n == 2 never ends, n == 5 is x * 5.
  static SpecializationRef graph(std::int64_t n, std::shared_ptr<torch::jit::Graph> own = nullptr) {
    auto made = graph_for(call({{"x", tensor(0, meta({2}))}, {"n", integer(n)}}), {at::ones(2)},
                          [n](const Tensors &in) -> Tensors { return {in[0] * n}; });
    if (own)
      made->program = std::make_unique<Program>(std::move(own), "f", 1);
    return made;
  }
  static Interrupted ended(const std::function<void()> &act) {
    try {
      act();
    } catch (const Interrupted &e) {
      return e;
    }
    ADD_FAILURE() << "was not ended";
    return {ErrorCode::interrupted, false};
  }
  void expect_others_run() { EXPECT_TRUE(at::equal(f(x, 5), x * 5)); }

  test::FakeSink sink;
  Function f =
      test::loaded({graph(1, test::endless()), graph(2, endless_reader()), graph(5)}, sink);
  const at::Tensor x = at::full(2, 3.0);
};

TEST_F(RuntimeLimits, AnInterruptEndsAllCalls) {
  const at::Tensor turns = at::zeros(2);
  std::atomic<bool> over{false};
  std::thread caller([&] {
    const Interrupted e = ended([&] { f(turns, 1); });
    EXPECT_EQ(e.code(), ErrorCode::interrupted);
    EXPECT_STREQ(e.what(), "f: interrupt() has ended the call; the ops that ran may have written "
                           "to tensors or drawn random numbers");
    over = true;
  });
  while (!over)
    interrupt();
  caller.join();
  expect_others_run();
}

TEST_F(RuntimeLimits, ADeadlineEndsACallThatRuns) {
  const auto before = Clock::now();
  const Interrupted e = ended([&] { f.with_deadline(before + 20ms)(x, 2); });
  EXPECT_GE(Clock::now(), before + 20ms);
  EXPECT_EQ(e.code(), ErrorCode::deadline);
  EXPECT_FALSE(e.may_have_written());
  EXPECT_STREQ(e.what(), "f: the call has passed its deadline");
  EXPECT_EQ(f.stats().failures, 1);
  expect_others_run();
}

TEST_F(RuntimeLimits, ACallThatMayHaveWrittenSaysSo) {
  const at::Tensor turns = at::zeros(2);
  const Interrupted e = ended([&] { f.with_deadline(Clock::now() + 20ms)(turns, 1); });
  EXPECT_TRUE(e.may_have_written());
  EXPECT_GT(turns[0].item<float>(), 0) << "what was done is done";
}

TEST_F(RuntimeLimits, AStopTokenEndsItsCallsAlone) {
  std::stop_source gone, stays;
  std::atomic<int> over{0};
  std::thread first([&] {
    const Interrupted e = ended([&] { f.with_stop(gone.get_token())(x, 2); });
    EXPECT_EQ(e.code(), ErrorCode::stopped);
    EXPECT_STREQ(e.what(), "f: its stop token has ended the call");
    over = 1;
  });
  std::thread second([&] {
    ended([&] { f.with_stop(stays.get_token())(x, 2); });
    EXPECT_EQ(over, 1) << "ended before its own token";
  });
  gone.request_stop();
  first.join();
  stays.request_stop();
  second.join();
  expect_others_run();
}

TEST_F(RuntimeLimits, ACallPastItsLimitsDoesNotBegin) {
  const at::Tensor turns = at::zeros(2);
  std::stop_source gone;
  gone.request_stop();
  for (const Function &limited :
       {f.with_deadline(Clock::now() - 1s), f.with_stop(gone.get_token())})
    EXPECT_FALSE(ended([&] { limited(turns, 1); }).may_have_written());
  EXPECT_EQ(turns[0].item<float>(), 0);
  EXPECT_EQ(f.stats().hits + f.stats().failures, 0);
}

TEST_F(RuntimeLimits, LimitsAreOfTheHandleAndAddUp) {
  std::stop_source source;
  const Function stoppable = f.with_stop(source.get_token());
  const Function both = stoppable.with_deadline(Clock::now() + 1h);
  EXPECT_TRUE(at::equal(both(x, 5), x * 5));
  source.request_stop();
  EXPECT_EQ(ended([&] { both(x, 5); }).code(), ErrorCode::stopped);
  EXPECT_EQ(ended([&] { both.with_inference_mode(false)(x, 5); }).code(), ErrorCode::stopped);
  expect_others_run();
}

TEST_F(RuntimeLimits, ATaskOfAnotherThreadHasTheLimits) {
  auto result = f.with_deadline(Clock::now() + 20ms).async(x, 2);
  EXPECT_EQ(ended([&] { result.get(); }).code(), ErrorCode::deadline);
}

TEST_F(RuntimeLimits, WarmUpHasTheLimits) {
  const auto endless_one = graph_for(call({{"x", tensor(0, meta({2}))}}), {at::ones(2)},
                                     [](const Tensors &in) -> Tensors { return {in[0] + 1}; });
  endless_one->program = std::make_unique<Program>(endless_reader(), "f", 1);
  const Function g = test::loaded({endless_one}, sink).with_deadline(Clock::now() + 20ms);
  EXPECT_STREQ(ended([&] { g.warm_up(); }).what(), "f: the call has passed its deadline");
  ended([&] { g.warm_up({"f32[2]"}); });
}

} // namespace
} // namespace tracehost
