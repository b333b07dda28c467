#include "signature/difference.h"

#include "support/signatures.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

namespace tracehost {
namespace {
using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;

/// `cause path[dimension]: before -> after`, one for each difference.
std::vector<std::string> told(const Signature &before, const Signature &after) {
  std::vector<std::string> result;
  for (const auto &d : differences(before, after))
    result.push_back(std::string(name(d.cause)) + " " + d.path +
                     (d.dimension < 0 ? "" : " dim " + std::to_string(d.dimension)) + ": " +
                     d.before + " -> " + d.after);
  return result;
}
std::vector<std::string> told(const Value &before, const Value &after) {
  return told(call({{"x", before}}), call({{"x", after}}));
}
std::vector<std::string> told(const at::Tensor &before, const at::Tensor &after) {
  return told(tensor(0, TensorMeta::of(before)), tensor(0, TensorMeta::of(after)));
}

TEST(Difference, IsNoneBetweenEqualSignatures) {
  const auto make = [] {
    return call({{"x", tensor(0, meta({8, 3}))},
                 {"d", dict({{"a", list({tensor(1, meta({2})), real(0.5)})}, {"b", none()}})}});
  };
  EXPECT_THAT(told(make(), make()), IsEmpty());
}

TEST(Difference, HasOneEntryForEachDimension) {
  EXPECT_THAT(told(at::ones({8, 3, 4}), at::ones({9, 3, 5})),
              ElementsAre("shape x dim 0: 8 -> 9", "shape x dim 2: 4 -> 5"));
  const auto found =
      differences(call({{"x", tensor(0, meta({8, 3}))}}), call({{"x", tensor(0, meta({8, 4}))}}));
  EXPECT_EQ(found.at(0).rank, 2);
}

TEST(Difference, NamesWhatDiffersInATensor) {
  const auto x = at::ones({2, 3});
  EXPECT_THAT(told(x, at::ones({2})), ElementsAre("rank x: [2, 3] -> [2]"));
  EXPECT_THAT(told(x, x.to(at::kDouble)), ElementsAre("dtype x: float32 -> float64"));
  EXPECT_THAT(told(x, at::empty({2, 3}, at::kMeta)), ElementsAre("device x: cpu -> meta"));
  EXPECT_THAT(told(x, x.to_sparse()), ElementsAre("layout x: strided -> sparse"));
  EXPECT_THAT(told(x, x.clone().requires_grad_()), ElementsAre("requires_grad x: False -> True"));
  const int type = 0;
  EXPECT_THAT(told(tensor(0, TensorMeta::of(x)), tensor(0, TensorMeta::of(x, &type, "Masked"))),
              ElementsAre("subclass x: Tensor -> Masked"));
}

TEST(Difference, ComparesStridesAndLeafOnlyWhereTheBodyReadThem) {
  auto before = call({{"x", tensor(0, TensorMeta::of(at::ones({2, 3})))}});
  const auto strided = call({{"x", tensor(0, TensorMeta::of(at::ones({3, 2}).t()))}});
  EXPECT_THAT(told(before, strided), IsEmpty());
  before.reads_strides = true;
  EXPECT_THAT(told(before, strided), ElementsAre("layout x: strides [3, 1] -> strides [1, 2]"));

  const auto leaf = at::ones({2}).requires_grad_();
  before = call({{"x", tensor(0, TensorMeta::of(leaf))}});
  const auto result = call({{"x", tensor(0, TensorMeta::of(leaf.mul(2)))}});
  EXPECT_THAT(told(before, result), IsEmpty());
  before.reads_leaf = true;
  EXPECT_THAT(told(before, result), ElementsAre("requires_grad x: a leaf -> not a leaf"));
}

TEST(Difference, TellsAnotherValueFromAnotherTypeAndAnotherObject) {
  EXPECT_THAT(told(real(0.1), real(0.2)), ElementsAre("value x: 0.1 -> 0.2"));
  EXPECT_THAT(told(boolean(true), boolean(false)), ElementsAre("value x: True -> False"));
  EXPECT_THAT(told(string("a"), string("b")), ElementsAre("value x: 'a' -> 'b'"));
  EXPECT_THAT(told(integer(1), real(1)), ElementsAre("type x: int -> float"));
  EXPECT_THAT(told(none(), tensor(0, meta({2}))), ElementsAre("type x: None -> Tensor"));
  EXPECT_THAT(told(object("Config"), object("Config")),
              ElementsAre("object x: <Config object> -> <Config object>"));
}

TEST(Difference, ReportsTheFirstDifferingNodeOfASubtreeAndGoesOnWithSiblings) {
  const auto before = call({{"a", list({integer(1), list({integer(2)})})}, {"lr", real(0.1)}});
  const auto after =
      call({{"a", list({integer(5), list({integer(2), integer(3)})})}, {"lr", real(0.2)}});
  EXPECT_THAT(told(before, after),
              ElementsAre("value a[0]: 1 -> 5", "structure a[1]: list of 1 -> list of 2",
                          "value lr: 0.1 -> 0.2"));
}

TEST(Difference, OfContainersIsTheirTypeLengthOrKeys) {
  EXPECT_THAT(told(list({integer(1)}), tuple({integer(1)})), ElementsAre("type x: list -> tuple"));
  EXPECT_THAT(told(list({integer(1)}), tuple({integer(2)})),
              ElementsAre("type x: list -> tuple", "value x[0]: 1 -> 2"));
  EXPECT_THAT(told(list({}), dict({})), ElementsAre("type x: list -> dict"));
  EXPECT_THAT(told(list({}), none()), ElementsAre("type x: list -> None"));
  EXPECT_THAT(told(dict({{"a", none()}}), dict({{"b", none()}})),
              ElementsAre("structure x: keys {'a'} -> keys {'b'}"));
  EXPECT_THAT(told(dict({{"a", none()}, {"b", none()}}), dict({{"b", none()}, {"a", none()}})),
              ElementsAre("structure x: keys {'a', 'b'} -> keys {'b', 'a'}"));
  EXPECT_THAT(told(dict({{"a", integer(1)}}), dict({{"a", integer(2)}})),
              ElementsAre("value x['a']: 1 -> 2"));
  const auto config = [](std::string type, double lr) {
    return container(Kind::record, std::move(type), {real(lr)}, {".lr"});
  };
  EXPECT_THAT(told(config("Config", 1), config("Config", 2)),
              ElementsAre("value x.lr: 1.0 -> 2.0"));
  EXPECT_THAT(told(config("Config", 1), config("Other", 2)),
              ElementsAre("type x: Config -> Other"));
}

TEST(Difference, SeesTheTreeAndNotOnlyItsLeaves) {
  const auto a = [] { return integer(1); };
  EXPECT_THAT(told(call({{"x", list({a()})}, {"y", list({a()})}}),
                   call({{"x", list({a(), list({})})}, {"y", list({a()})}})),
              ElementsAre("structure x: list of 1 -> list of 2"));
}

TEST(Difference, OfAliasIsToldWhereAllElseIsEqual) {
  const auto x = tensor(0, meta({2})), y = tensor(1, meta({2}));
  EXPECT_THAT(told(call({{"x", x}, {"y", x}}), call({{"x", x}, {"y", y}})),
              ElementsAre("alias y: the same tensor as x -> a tensor of its own"));
  EXPECT_THAT(told(call({{"x", x}, {"y", y}}), call({{"x", x}, {"y", x}})),
              ElementsAre("alias y: a tensor of its own -> the same tensor as x"));
  EXPECT_THAT(told(call({{"x", x}, {"y", y}, {"z", x}}), call({{"x", x}, {"y", y}, {"z", y}})),
              ElementsAre("alias z: the same tensor as x -> the same tensor as y"));
  EXPECT_THAT(told(call({{"x", x}, {"y", x}}), call({{"x", x}, {"y", tensor(1, meta({3}))}})),
              ElementsAre("shape y dim 0: 2 -> 3"));
}

TEST(Difference, OfOneTensorPassedTwiceIsToldOnce) {
  const auto x = tensor(0, meta({2})), other = tensor(0, meta({3}));
  EXPECT_THAT(told(call({{"x", x}, {"y", x}}), call({{"x", other}, {"y", other}})),
              ElementsAre("shape x dim 0: 2 -> 3"));
}

TEST(Difference, OfSlotNumbersAloneIsNone) {
  // A tensor in place of None shifts all later slots; the pattern among the others is the same.
  const auto before =
      call({{"m", none()}, {"x", tensor(0, meta({2}))}, {"y", tensor(0, meta({2}))}});
  const auto after =
      call({{"m", tensor(0, meta({4}))}, {"x", tensor(1, meta({2}))}, {"y", tensor(1, meta({2}))}});
  EXPECT_THAT(told(before, after), ElementsAre("type m: None -> Tensor"));
}

TEST(Difference, ComesInTheOrderArgumentsContextGuardsCaptures) {
  auto before = call({{"n", integer(1)}});
  watch(before, "self.training", boolean(true));
  watch(before, "SCALE (train.py)", leaf(Kind::absent));
  before.captures.push_back({"self.w", meta({2})});
  before.captures.push_back({"self.b", meta({2})});
  auto after = call({{"n", integer(2)}});
  after.context.grad = false;
  watch(after, "self.training", boolean(false));
  watch(after, "SCALE (train.py)", real(2));
  after.captures.push_back({"self.w", meta({3})});
  after.captures.push_back({"self.b", meta({2})});
  EXPECT_THAT(told(before, after), ElementsAre("value n: 1 -> 2", "context grad mode: on -> off",
                                               "guard self.training: True -> False",
                                               "guard SCALE (train.py): nothing -> 2.0",
                                               "capture self.w dim 0: float32[2] -> float32[3]"));
}

TEST(Difference, LeavesOutGuardsAndCapturesThatTheRequestLacks) {
  auto before = call({{"n", integer(1)}});
  watch(before, "self.training", boolean(true));
  before.captures.push_back({"self.w", meta({2})});
  EXPECT_THAT(told(before, call({{"n", integer(1)}})), IsEmpty());
}

Nearest nearest(const std::vector<const Signature *> &specializations, const Signature &request) {
  Nearest result;
  for (std::size_t i = 0; i < specializations.size(); ++i)
    result.consider(i, *specializations[i], request);
  return result;
}

TEST(Nearest, HasTheFewestDifferences) {
  const auto make = [](std::int64_t size, std::int64_t n) {
    return call({{"x", tensor(0, meta({size}))}, {"n", integer(n)}});
  };
  const auto a = make(1, 1), b = make(2, 2), c = make(3, 3);
  const auto found = nearest({&a, &b, &c}, make(2, 9));
  EXPECT_EQ(found.index, 1u);
  EXPECT_THAT(found.differences, ElementsAre(Difference{Cause::value, "n", -1, "2", "9"}));
}

TEST(Nearest, IsTheLatestOfEquals) {
  const auto a = call({{"n", integer(1)}}), b = call({{"n", integer(2)}});
  EXPECT_EQ(nearest({&a, &b}, call({{"n", integer(3)}})).index, 1u);
  EXPECT_EQ(nearest({&b, &a}, call({{"n", integer(3)}})).index, 1u);
}

TEST(Nearest, PrefersAnotherSizeToAnotherTypeOrStructure) {
  const auto sizes = call({{"x", tensor(0, meta({1, 1}))}, {"m", none()}});
  const auto type = call({{"x", none()}, {"m", none()}});
  const auto structure = call({{"x", list({})}, {"m", none()}});
  const auto request = call({{"x", tensor(0, meta({2, 2}))}, {"m", none()}});
  EXPECT_EQ(nearest({&sizes, &type, &structure}, request).index, 0u);
}

TEST(Nearest, OfNothingIsNothing) { EXPECT_EQ(nearest({}, call({})).index, Nearest::npos); }

TEST(Cause, HasANameEach) {
  EXPECT_STREQ(name(Cause::shape), "shape");
  EXPECT_STREQ(name(Cause::requires_grad), "requires_grad");
  EXPECT_STREQ(name(Cause::structure), "structure");
  EXPECT_STREQ(name(Cause::capture), "capture");
}

} // namespace
} // namespace tracehost
