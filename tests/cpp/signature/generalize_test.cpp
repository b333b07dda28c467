#include "signature/generalize.h"

#include "cache/cache.h"
#include "support/calls.h"
#include "support/signatures.h"

#include <gtest/gtest.h>

namespace tracehost {
namespace {

using test::call;
using test::tensor;

using Sizes = std::vector<std::int64_t>;

/// A Signature of one float32 tensor; kAnySize is a dynamic dimension.
Signature of(const Sizes &sizes) {
  TensorMeta meta;
  meta.sizes.assign(sizes.begin(), sizes.end());
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] == kAnySize)
      meta.make_dynamic(d);
  return call({{"x", tensor(0, meta)}});
}

SpecializationRef made(const Sizes &sizes) {
  auto result = std::make_shared<Specialization>();
  result->signature = of(sizes);
  return result;
}

std::string texts(const Cache::List &list) {
  std::string result;
  for (const auto &s : list)
    result += sizes_text(s->signature.slots[0].sizes) + "; ";
  return result;
}

constexpr auto any = kAnySize;

TEST(Generalize, ADynamicDimensionTakesEachSizeAndTheRankStays) {
  const TensorMeta meta = of({any, 3}).slots[0];
  EXPECT_TRUE(meta.takes(Sizes{7, 3}));
  EXPECT_FALSE(meta.takes(Sizes{7, 4}));
  EXPECT_FALSE(meta.takes(Sizes{7}));
  EXPECT_EQ(meta.text(), "float32[None, 3]");
}

TEST(Generalize, NarrowerIsAStrictPartialOrder) {
  const std::vector<Sizes> all = {{2, 3}, {any, 3}, {2, any}, {any, any}, {4, 3}, {2}, {any}};
  for (const auto &a : all)
    for (const auto &b : all) {
      EXPECT_FALSE(is_narrower(of(a), of(b)) && is_narrower(of(b), of(a)));
      for (const auto &c : all) {
        const bool chained = is_narrower(of(a), of(b)) && is_narrower(of(b), of(c));
        EXPECT_TRUE(!chained || is_narrower(of(a), of(c)));
      }
    }
  EXPECT_TRUE(is_narrower(of({2, 3}), of({any, 3})));
  EXPECT_FALSE(is_narrower(of({any, 3}), of({2, any})));
  EXPECT_FALSE(is_narrower(of({2, 3}), of({2, 3})));
}

TEST(Generalize, TheSupertypeTakesBothAndIsIdempotent) {
  for (const Sizes &a : {Sizes{2, 3}, Sizes{any, 3}, Sizes{4, 5}})
    for (const Sizes &b : {Sizes{2, 3}, Sizes{2, 7}, Sizes{any, any}}) {
      Signature up = of(a);
      generalize(up, of(b));
      for (const Sizes &lower : {a, b})
        EXPECT_TRUE(is_narrower(of(lower), up) || of(lower).slots[0].sizes == up.slots[0].sizes);
      Signature again = up;
      generalize(again, of(b));
      EXPECT_EQ(again.slots[0].sizes, up.slots[0].sizes);
    }
}

TEST(Generalize, SizesThatAreAnyAreNoDifference) {
  EXPECT_TRUE(differences(of({any, 3}), of({5, 3})).empty());
  const auto found = differences(of({4, 3}), of({any, 3}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].before, "4");
  EXPECT_EQ(found[0].after, "None");
}

TEST(Generalize, ASpecializedDimensionIsExactAgain) {
  Signature s = of({any, any});
  specialize(s, 0, 0, 8);
  EXPECT_EQ(text(s), "(x: float32[8, None])");
  EXPECT_TRUE(s.is_dynamic());
  specialize(s, 0, 1, 2);
  EXPECT_FALSE(s.is_dynamic());
}

TEST(Generalize, ASizeConditionThatFailsIsADifferenceAndAnOpenOneIsNot) {
  Signature s = of({any});
  s.conditions.push_back({{{SizeTerm::Op::size, 0, 0, 0},
                           {SizeTerm::Op::constant, -1, -1, 4},
                           {SizeTerm::Op::less, -1, -1, 0}},
                          false,
                          "net.py:3"});
  EXPECT_TRUE(differences(s, of({5})).empty());
  EXPECT_TRUE(differences(s, of({any})).empty());
  const auto found = differences(s, of({3}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].cause, Cause::condition);
  EXPECT_EQ(found[0].before, "x.shape[0] >= 4");
  EXPECT_EQ(found[0].after, "x.shape[0] < 4");
  EXPECT_TRUE(only_sizes(found));
}

TEST(Generalize, OnlySizesOfACaptureDiffer) {
  auto before = call({}), after = before;
  before.captures.push_back({"self.w", meta({2, 3})});
  after.captures.push_back({"self.w", meta({5, 3})});
  EXPECT_TRUE(only_sizes(differences(before, after)));
  after.captures[0].meta = meta({5});
  EXPECT_FALSE(only_sizes(differences(before, after)));
  after.captures[0].meta = meta({2, 3});
  after.captures[0].same_as_slot = 0;
  EXPECT_FALSE(only_sizes(differences(before, after)));
}

TEST(Generalize, AConditionOnASizeOfACapture) {
  using Op = SizeTerm::Op;
  auto before = call({}), after = before;
  before.captures.push_back({"self.w", meta({4})});
  before.captures[0].meta.make_dynamic(0);
  before.conditions.push_back(
      {{{Op::size, 0, 0, 0}, {Op::constant, -1, -1, 4}, {Op::less_equal, -1, -1, 0}}, true, "f:1"});
  after.captures.push_back({"self.w", meta({4})});
  EXPECT_TRUE(differences(before, after).empty());
  after.captures[0].meta = meta({5});
  const auto found = differences(before, after);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].before, "self.w.shape[0] <= 4");
  EXPECT_EQ(found[0].after, "self.w.shape[0] > 4");
}

TEST(Generalize, TheCacheAsksTheNarrowerFirst) {
  Cache cache(8);
  cache.publish(made({any, 3}));
  cache.publish(made({2, 3}));
  cache.publish(made({any, any}));
  cache.publish(made({2, any}));
  const auto list = cache.list();
  EXPECT_EQ(texts(*list), "2, 3; None, 3; 2, None; None, None; ");
  EXPECT_TRUE(list->narrower(0).empty());
  EXPECT_EQ(list->narrower(1).size(), 1u);
  EXPECT_EQ(list->narrower(3).size(), 3u);
}

class Reducing : public ::testing::Test {
protected:
  static Identity identity() {
    Identity result;
    result.name = "f";
    result.reduces = true;
    return result;
  }
  /// The number of traces after a call with a tensor of these sizes.
  std::uint64_t traces(const Sizes &sizes, std::int64_t n = 1) {
    test::Call call(at::ones(sizes), n);
    Operands stack;
    SpecializationRef served;
    f.call(body.of(call), stack, served);
    return f.counters()->traces;
  }
  test::FakeSink sink;
  FunctionCore f{identity(), 64, sink};
  test::FakeBody body{[](const at::Tensor &x, std::int64_t n) { return x * n; }};
};

TEST_F(Reducing, TheSecondShapeRelaxesWhatDiffersAndTheThirdIsAHit) {
  EXPECT_EQ(traces({1, 2}), 1u);
  EXPECT_EQ(traces({2, 2}), 2u);
  EXPECT_EQ(traces({7, 2}), 2u);
  EXPECT_EQ(traces({2, 1}), 3u);
  EXPECT_EQ(traces({5, 6}), 3u);
  EXPECT_EQ(texts(*f.cache().list()), "1, 2; None, 2; None, None; ");
}

TEST_F(Reducing, AnExactTraceStillServesItsShape) {
  traces({1, 2});
  traces({2, 2});
  traces({1, 2});
  EXPECT_EQ(f.cache().list()->front()->hits, 1u);
}

TEST_F(Reducing, OtherValuesAndRanksMakeFamiliesOfTheirOwn) {
  traces({2}, 1);
  EXPECT_EQ(traces({3}, 2), 2u);
  EXPECT_EQ(traces({2, 2}, 1), 3u);
  EXPECT_EQ(traces({4}, 2), 4u);
  EXPECT_EQ(traces({9}, 2), 4u);
  EXPECT_EQ(traces({9}, 1), 5u);
}

TEST_F(Reducing, ARequestWithDynamicSizesIsServedByTheWiderTrace) {
  traces({2});
  traces({3});
  test::Call call(at::ones({4}), 1);
  EXPECT_EQ(f.request(body.of(call)), f.cache().list()->back());
  EXPECT_EQ(f.counters()->traces, 2u);
  EXPECT_EQ(f.counters()->hits, 0u);
}

TEST_F(Reducing, ExplainTellsTheNearestAndRunsNothing) {
  traces({2});
  test::Call same(at::ones({2}), 1), other(at::ones({3}), 1);
  const int runs = body.runs;
  EXPECT_TRUE(f.explain(body.of(same)).served);
  const auto missed = f.explain(body.of(other));
  EXPECT_FALSE(missed.served);
  ASSERT_EQ(missed.differences.size(), 1u);
  EXPECT_EQ(missed.differences[0].after, "3");
  EXPECT_EQ(body.runs, runs);
  EXPECT_EQ(f.counters()->hits, 0u);
}

/// A type of lengths up to a bound.
class UpTo final : public Atom {
public:
  explicit UpTo(int bound) : bound_(bound) {}
  bool same(const Atom &other) const override { return of(other) == bound_; }
  bool is_ordered() const override { return true; }
  bool covers(const Atom &other) const override { return of(other) && of(other) <= bound_; }
  std::string text() const override { return std::to_string(bound_); }

private:
  static int of(const Atom &other) {
    const auto *that = dynamic_cast<const UpTo *>(&other);
    return that ? that->bound_ : 0;
  }
  int bound_;
};

Signature up_to(int bound) { return call({{"s", test::atom(std::make_shared<UpTo>(bound))}}); }

TEST(Generalize, UserTypesAreNarrowerWhereAllAreBelow) {
  EXPECT_TRUE(types_are_narrower(up_to(3), up_to(5)));
  EXPECT_FALSE(types_are_narrower(up_to(5), up_to(3)));
  EXPECT_FALSE(types_are_narrower(up_to(3), up_to(3)));
  EXPECT_FALSE(types_are_narrower(of({2}), of({any})));
  EXPECT_FALSE(types_are_narrower(up_to(3), of({2})));
}

TEST(Generalize, ATypeBelowComesBeforeTheOneAboveIt) {
  Cache cache(8);
  const auto publish = [&](int bound, std::uint64_t number) {
    auto made = std::make_shared<Specialization>();
    made->signature = up_to(bound);
    made->number = number;
    for (const auto &other : *cache.list())
      (types_are_narrower(made->signature, other->signature) ? made->above : made->below)
          .push_back(other->number);
    cache.publish(made);
  };
  publish(4, 1);
  publish(8, 2);
  publish(2, 3);
  const auto list = cache.list();
  std::vector<std::uint64_t> numbers;
  for (const auto &s : *list)
    numbers.push_back(s->number);
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{3, 1, 2}));
  EXPECT_EQ(list->narrower(2).size(), 2u);
  EXPECT_TRUE(list->narrower(0).empty());
}

} // namespace
} // namespace tracehost
