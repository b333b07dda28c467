#include "signature/value_guard.h"

#include "signature/difference.h"
#include "support/signatures.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace tracehost {
namespace {

using test::tensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(ValueGuard, HoldsForEqualElementsInAnyLayout) {
  const at::Tensor t = at::arange(6).view({2, 3});
  const ValueGuard guard = guard_of(0, t);
  EXPECT_TRUE(holds(guard, t.clone()));
  EXPECT_TRUE(holds(guard, t.t().contiguous().t()));
  EXPECT_FALSE(holds(guard, t + 1));
  EXPECT_FALSE(holds(guard, t.t().contiguous().t() + 1));
}

TEST(ValueGuard, TakesEachNanForTheSameAndTellsZerosApart) {
  const ValueGuard nan = guard_of(0, at::scalar_tensor(kNaN));
  EXPECT_TRUE(holds(nan, at::scalar_tensor(-kNaN)));
  EXPECT_FALSE(holds(nan, at::scalar_tensor(1.0)));
  const ValueGuard zero = guard_of(0, at::scalar_tensor(0.0));
  EXPECT_TRUE(holds(zero, at::scalar_tensor(0.0)));
  EXPECT_FALSE(holds(zero, at::scalar_tensor(-0.0)));
}

TEST(ValueGuard, ReadsThroughANegativeView) {
  const at::Tensor z = at::complex(at::ones({1}), at::ones({1}));
  const at::Tensor minus = at::imag(z.conj());
  ASSERT_TRUE(minus.is_neg());
  EXPECT_TRUE(holds(guard_of(0, at::full({1}, -1.0)), minus));
  EXPECT_FALSE(holds(guard_of(0, at::full({1}, 1.0)), minus));
}

TEST(ValueGuard, HasAText) {
  EXPECT_EQ(text(guard_of(0, at::scalar_tensor(3, at::kLong))), "3");
  EXPECT_EQ(text(guard_of(0, at::scalar_tensor(true, at::kBool))), "True");
  EXPECT_EQ(text(guard_of(0, at::arange(2, at::kFloat))), "[0.0, 1.0]");
  EXPECT_EQ(text(guard_of(0, at::arange(9))), "[0, 1, 2, 3, 4, 5, 6, 7, ...]");
  EXPECT_EQ(text(guard_of(0, at::scalar_tensor(kNaN))), "nan");
  EXPECT_EQ(text(ValueGuard{}), "not known");
}

TEST(ValueGuard, IsForFewDenseElements) {
  EXPECT_TRUE(can_be_guarded(at::zeros({64})));
  EXPECT_FALSE(can_be_guarded(at::zeros({65})));
  EXPECT_FALSE(can_be_guarded(at::zeros({2}).to_sparse()));
  EXPECT_FALSE(can_be_guarded(at::zeros({2}, at::kMeta)));
}

class GuardedSignature : public testing::Test {
protected:
  static Signature with(std::int64_t value) {
    const at::Tensor n = at::scalar_tensor(value, at::kLong);
    Signature s =
        test::call({{"x", tensor(0, test::meta({3}))}, {"n", tensor(1, TensorMeta::of(n))}});
    s.values.push_back(guard_of(1, n));
    s.values.back().where = "net.py:12";
    return s;
  }
};

TEST_F(GuardedSignature, DiffersByTheValueOfAnInput) {
  EXPECT_TRUE(differences(with(3), with(3)).empty());
  const auto found = differences(with(3), with(5));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].cause, Cause::read);
  EXPECT_STREQ(name(found[0].cause), "read");
  EXPECT_EQ(found[0].path, "n");
  EXPECT_EQ(found[0].before, "3");
  EXPECT_EQ(found[0].after, "5");
  EXPECT_EQ(found[0].where, "net.py:12");
}

TEST_F(GuardedSignature, TakesNoPartWhereARequestHasNoValues) {
  Signature request = with(5);
  request.values.clear();
  EXPECT_TRUE(differences(with(3), request).empty());
}

TEST_F(GuardedSignature, DiffersFromAnInputWhoseValueIsNotKnown) {
  Signature request = with(3);
  request.values[0].bytes.clear();
  const auto found = differences(with(3), request);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].after, "not known");
}

TEST_F(GuardedSignature, NamesACaptureByItsPath) {
  Signature a = with(3), b = with(4);
  for (Signature *s : {&a, &b}) {
    s->captures.push_back({"self.steps", test::meta({})});
    s->values[0].input = 2;
  }
  const auto found = differences(a, b);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, "self.steps");
}

TEST_F(GuardedSignature, HasTheValueInItsText) {
  EXPECT_EQ(text(with(3)), "(x: float32[3], n: int64[] = 3)");
}

} // namespace
} // namespace tracehost
