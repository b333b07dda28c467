#include "signature/tensor_spec.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tracehost {
namespace {

TensorSpec spec(std::optional<TensorSpec::Shape> shape, at::ScalarType dtype = at::kFloat,
                std::optional<c10::Device> device = std::nullopt, std::string name = {}) {
  return {std::move(shape), dtype, device, std::move(name)};
}
TensorSpec named(TensorSpec base, std::string name) {
  base.name = std::move(name);
  return base;
}

/// Every kind of shape, dtype, device and name that the relations distinguish.
std::vector<TensorSpec> samples() {
  const std::vector<std::optional<TensorSpec::Shape>> shapes = {
      std::nullopt,
      TensorSpec::Shape{},
      TensorSpec::Shape{2},
      TensorSpec::Shape{kAnySize},
      TensorSpec::Shape{2, 3},
      TensorSpec::Shape{kAnySize, 3},
      TensorSpec::Shape{2, kAnySize},
      TensorSpec::Shape{kAnySize, kAnySize},
  };
  const std::vector<std::optional<c10::Device>> devices = {
      std::nullopt, c10::Device("cpu"), c10::Device("cpu:0"), c10::Device("cuda"),
      c10::Device("cuda:1")};
  std::vector<TensorSpec> result;
  for (const auto &shape : shapes)
    for (const auto &device : devices)
      for (const char *name : {"", "a", "b"})
        result.push_back(spec(shape, at::kFloat, device, name));
  result.push_back(spec(TensorSpec::Shape{2, 3}, at::kDouble));
  result.push_back(spec(std::nullopt, at::kDouble));
  return result;
}

TEST(TensorSpec, TextPastesBack) {
  EXPECT_EQ(spec({{2, kAnySize}}).text(),
            "TensorSpec(shape=(2, None), dtype=torch.float32, name=None)");
  EXPECT_EQ(spec({{3}}, at::kLong).text(), "TensorSpec(shape=(3,), dtype=torch.int64, name=None)");
  EXPECT_EQ(spec({TensorSpec::Shape{}}).text(),
            "TensorSpec(shape=(), dtype=torch.float32, name=None)");
  EXPECT_EQ(spec(std::nullopt).text(), "TensorSpec(shape=None, dtype=torch.float32, name=None)");
  EXPECT_EQ(spec({{1}}, at::kHalf, c10::Device("cuda:1"), "it's").text(),
            "TensorSpec(shape=(1,), dtype=torch.float16, device='cuda:1', name=\"it's\")");
  EXPECT_EQ(named(spec({{1}}), "a\\'\"\n\t").text(),
            "TensorSpec(shape=(1,), dtype=torch.float32, name='a\\\\\\'\"\\n\\x09')");
}

TEST(TensorSpec, OfATensorIsExact) {
  const auto t = at::ones({2, 0}, at::kInt);
  EXPECT_EQ(TensorSpec::of(t, "n"), spec({{2, 0}}, at::kInt, c10::Device("cpu"), "n"));
  EXPECT_EQ(TensorSpec::of(TensorMeta::of(t)), TensorSpec::of(t));
  EXPECT_TRUE(is_compatible_with(spec({{kAnySize, 0}}, at::kInt), t));
  EXPECT_FALSE(is_compatible_with(spec({{kAnySize, 1}}, at::kInt), t));
  EXPECT_FALSE(is_compatible_with(spec({{2, 0}}, at::kInt, c10::Device("cuda")), t));
}

TEST(TensorSpec, SubtypeGoesBySizeRankDeviceAndName) {
  const auto exact = spec({{2, 3}});
  EXPECT_TRUE(is_subtype_of(exact, spec({{kAnySize, 3}})));
  EXPECT_FALSE(is_subtype_of(spec({{kAnySize, 3}}), exact));
  EXPECT_FALSE(is_subtype_of(exact, spec({{3, 3}})));
  EXPECT_FALSE(is_subtype_of(exact, spec({{kAnySize}})));
  EXPECT_TRUE(is_subtype_of(spec({{kAnySize}}), spec(std::nullopt)));
  EXPECT_FALSE(is_subtype_of(spec(std::nullopt), spec({{kAnySize}})));
  EXPECT_FALSE(is_subtype_of(exact, spec({{2, 3}}, at::kDouble)));
  EXPECT_TRUE(is_subtype_of(spec({{2}}, at::kFloat, c10::Device("cuda:1")),
                            spec({{2}}, at::kFloat, c10::Device("cuda"))));
  EXPECT_FALSE(is_subtype_of(spec({{2}}), spec({{2}}, at::kFloat, c10::Device("cuda"))));
  EXPECT_TRUE(is_subtype_of(exact, named(exact, "a")));
  EXPECT_FALSE(is_subtype_of(named(exact, "a"), exact));
  EXPECT_FALSE(is_subtype_of(named(exact, "a"), named(exact, "b")));
}

TEST(TensorSpec, SubtypeIsAPartialOrder) {
  const auto all = samples();
  for (const auto &a : all) {
    EXPECT_TRUE(is_subtype_of(a, a)) << a.text();
    for (const auto &b : all) {
      EXPECT_EQ(is_subtype_of(a, b) && is_subtype_of(b, a), a == b) << a.text() << b.text();
      for (const auto &c : all)
        EXPECT_TRUE(!is_subtype_of(a, b) || !is_subtype_of(b, c) || is_subtype_of(a, c))
            << a.text() << b.text() << c.text();
    }
  }
}

TEST(TensorSpec, CompatibilityIsReflexiveSymmetricAndFollowsFromSubtype) {
  const auto all = samples();
  for (const auto &a : all)
    for (const auto &b : all) {
      EXPECT_EQ(is_compatible_with(a, b), is_compatible_with(b, a)) << a.text() << b.text();
      EXPECT_TRUE(!is_subtype_of(a, b) || is_compatible_with(a, b)) << a.text() << b.text();
    }
  EXPECT_TRUE(
      is_compatible_with(spec({{2, kAnySize}}), spec({{kAnySize, 3}}))); // neither is a subtype
  EXPECT_FALSE(is_compatible_with(spec({{2}}), spec({{3}})));
}

TEST(TensorSpec, CommonSupertypeIsTheLeastUpperBound) {
  const auto all = samples();
  for (const auto &a : all)
    for (const auto &b : all) {
      const auto join = most_specific_common_supertype({a, b});
      ASSERT_EQ(join.has_value(), a.dtype == b.dtype);
      if (!join)
        continue;
      EXPECT_EQ(join, most_specific_common_supertype({b, a}));
      // Specs of different names have no upper bound with a name; theirs is taken without.
      const bool named_apart = !a.name.empty() && !b.name.empty() && a.name != b.name;
      const auto below = [&](const TensorSpec &s) { return named_apart ? named(s, "") : s; };
      EXPECT_TRUE(is_subtype_of(below(a), *join)) << a.text() << join->text();
      EXPECT_TRUE(is_subtype_of(below(b), *join)) << b.text() << join->text();
      for (const auto &bound : all)
        EXPECT_TRUE(!is_subtype_of(below(a), bound) || !is_subtype_of(below(b), bound) ||
                    is_subtype_of(*join, bound))
            << join->text() << bound.text();
    }
}

TEST(TensorSpec, CommonSupertypeIsIdempotentAndTakesAnyNumber) {
  for (const auto &a : samples()) {
    EXPECT_EQ(most_specific_common_supertype({a}), a);
    EXPECT_EQ(most_specific_common_supertype({a, a, a}), a);
  }
  EXPECT_EQ(most_specific_common_supertype({spec({{2, 3}}), spec({{2, 4}}), spec({{5, 4}})}),
            spec({{kAnySize, kAnySize}}));
  EXPECT_EQ(most_specific_common_supertype({spec({{2, 3}}), spec({{2}})}), spec(std::nullopt));
  EXPECT_EQ(most_specific_common_supertype({spec({{2}}, at::kFloat, c10::Device("cuda:0")),
                                            spec({{2}}, at::kFloat, c10::Device("cuda:1"))}),
            spec({{2}}, at::kFloat, c10::Device("cuda")));
}

TEST(TensorSpec, CompatibleTypeSaysWhichSpecsHaveNone) {
  EXPECT_EQ(most_specific_compatible_type(spec({{2}}), spec({{3}})), spec({{kAnySize}}));
  try {
    most_specific_compatible_type(spec({{2}}), spec({{2}}, at::kInt));
    FAIL();
  } catch (const std::invalid_argument &e) {
    EXPECT_STREQ(e.what(), "No TensorSpec is compatible with both TensorSpec(shape=(2,), "
                           "dtype=torch.float32, name=None) and TensorSpec(shape=(2,), "
                           "dtype=torch.int32, name=None)");
  }
}

TEST(TensorSpec, HashAgreesWithEqualityAndLeavesTheNameOut) {
  const std::hash<TensorSpec> hash;
  const auto all = samples();
  for (const auto &a : all) {
    EXPECT_EQ(hash(a), hash(named(a, "other")));
    for (const auto &b : all)
      EXPECT_TRUE(!(a == b) || hash(a) == hash(b)) << a.text() << b.text();
  }
  EXPECT_NE(hash(spec({{2}})), hash(spec({{3}})));
  EXPECT_NE(hash(spec({TensorSpec::Shape{}})), hash(spec(std::nullopt)));
}

} // namespace
} // namespace tracehost
