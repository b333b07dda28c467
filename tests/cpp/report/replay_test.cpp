#include "report/replay.h"

#include "function/function.h"

#include "support/calls.h"
#include "support/records.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <random>

namespace tracehost::report {
namespace {

using namespace test;
using test::Value; // the public API has one as well

Signature x(std::vector<std::int64_t> sizes) { return call({{"x", sized(std::move(sizes))}}); }

std::size_t reduced(const std::vector<Signature> &calls, std::set<std::string> tensors = {}) {
  return saved_by_reducing(traces(calls), calls.size(), tensors);
}
std::size_t with_declared(const std::vector<Signature> &calls) {
  const auto records = traces(calls);
  const auto found = declare(records);
  return found ? saved_by_declaring(records, calls.size(), *found) : 0;
}

TEST(Replay, ReducesFromTheSecondSizeOn) {
  EXPECT_EQ(reduced({x({1}), x({2}), x({3}), x({4}), x({5})}), 3u);
  EXPECT_EQ(with_declared({x({1}), x({2}), x({3}), x({4}), x({5})}), 4u);
  EXPECT_EQ(reduced({x({1}), x({2})}), 0u);
}

TEST(Replay, RelaxesOnlyWhatDiffered) {
  EXPECT_EQ(reduced({x({1, 2}), x({2, 2}), x({2, 1}), x({7, 7})}), 1u);
  EXPECT_EQ(reduced({x({1, 2}), x({2, 2}), x({3, 2})}), 1u);
  EXPECT_EQ(with_declared({x({1, 2}), x({2, 2}), x({2, 1}), x({7, 7})}), 3u);
}

TEST(Replay, HasOneFamilyForEachRank) {
  EXPECT_EQ(reduced({x({}), x({1}), x({2}), x({3})}), 1u);
  EXPECT_EQ(with_declared({x({}), x({1}), x({2}), x({3})}), 2u);
  EXPECT_EQ(with_declared({x({}), x({1}), x({1, 1})}), 0u);
}

TEST(Replay, HasOneFamilyForEachPythonValue) {
  const auto step = [](std::int64_t size, std::int64_t n) {
    return call({{"x", sized({size})}, {"n", integer(n)}});
  };
  const std::vector<Signature> calls = {step(1, 0), step(2, 0), step(3, 0),
                                        step(1, 1), step(2, 1), step(3, 1)};
  EXPECT_EQ(reduced(calls), 2u);
  EXPECT_EQ(reduced(calls, {"n"}), 4u) << "n is a tensor";
  EXPECT_EQ(with_declared(calls), 5u);
}

TEST(Replay, NeverTakesOneObjectForAnother) {
  const auto a = object("Model"), b = object("Model");
  const auto step = [](const Value &model, std::int64_t size) {
    return call({{"self", model}, {"x", sized({size})}});
  };
  const std::vector<Signature> calls = {step(a, 1), step(b, 1), step(a, 2),
                                        step(b, 2), step(a, 3), step(b, 3)};
  EXPECT_EQ(reduced(calls), 2u);
  EXPECT_EQ(with_declared(calls), 4u) << "one trace for each of the two";
}

TEST(Replay, NeverTakesOneContextForAnother) {
  std::vector<Signature> calls = {x({1}), x({2}), x({3})};
  calls[2].context.grad = !calls[2].context.grad;
  EXPECT_EQ(reduced(calls), 0u);
  EXPECT_EQ(with_declared(calls), 1u);
}

TEST(Replay, TellsTensorsThatAreTheSameFromThoseThatAreNot) {
  const auto step = [](std::int64_t size, std::uint32_t second) {
    return call({{"x", sized({size})}, {"y", sized({size}, second)}});
  };
  EXPECT_EQ(reduced({step(1, 0), step(2, 0), step(3, 0)}), 1u);
  EXPECT_EQ(reduced({step(1, 0), step(2, 1), step(3, 0)}), 0u);
  EXPECT_EQ(with_declared({step(1, 0), step(2, 1), step(3, 0)}), 1u);
}

TEST(Replay, DoesNotServeASizeThatComparesOtherwise) {
  auto records = traces({x({1}), x({2}), x({3})});
  records[2].differences = {
      {Cause::condition, "net.py:7", -1, "x.shape[0] > 2", "x.shape[0] <= 2"}};
  const auto found = declare(records);
  ASSERT_TRUE(found);
  EXPECT_EQ(saved_by_declaring(records, 3, *found), 1u);
}

TEST(Replay, KeepsFunctionsOfOneDefinitionApart) {
  auto records = traces({x({1}), x({2}), x({3}), x({4})});
  records[2].function = records[3].function = 2;
  EXPECT_EQ(saved_by_reducing(records, 4), 0u);
}

TEST(Replay, CountsInTheWindowButKnowsWhatWasBefore) {
  const auto records = traces({x({1}), x({2}), x({3}), x({4})});
  EXPECT_EQ(saved_by_reducing(records, 2), 2u);
  EXPECT_EQ(saved_by_reducing(std::span(records).last(2), 2), 0u);
}

/// Keeps the records of traces, as the ledger does.
class Records final : public Sink {
public:
  void created(std::shared_ptr<const Counters>) override {}
  void on(const TraceEvent &event) override {
    TraceRecord &record = all.emplace_back();
    record.function = event.function->number;
    record.number = event.number;
    record.request = event.request;
    record.alike = event.alike;
    record.differences = event.differences;
  }
  void on(const EvictEvent &) override {}
  void on(const FailEvent &) override {}
  void on(const MismatchEvent &) override {}
  void on(const GraphEvent &) override {}
  std::vector<TraceRecord> all;
};

TEST(Replay, AgreesWithWhatTheDecoratorThenDoes) {
  std::mt19937 random(5);
  const auto pick = [&](int n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 50; ++round) {
    std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>> calls;
    for (int i = 0; i < 12; ++i) {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(pick(3)));
      for (auto &size : sizes)
        size = 1 + pick(4);
      calls.emplace_back(sizes, pick(2));
    }
    const auto traced = [&](bool reduces, Records &records) {
      Identity identity{.name = "f", .definition = {}};
      identity.reduces = reduces;
      FunctionCore f(identity, 64, records);
      FakeBody body([](const at::Tensor &x, std::int64_t n) { return x * n; });
      for (const auto &[sizes, n] : calls) {
        Call call(at::ones(sizes), n);
        torch::jit::Stack stack;
        SpecializationRef served;
        f.call(body.of(call), stack, served);
      }
      return records.all.size();
    };
    Records exact, dynamic;
    const std::size_t before = traced(false, exact), after = traced(true, dynamic);
    EXPECT_EQ(before - saved_by_reducing(exact.all, before), after) << "round " << round;
  }
}

} // namespace
} // namespace tracehost::report
