#include "shapes/without_data.h"

#include "shapes/fake_tensor.h"
#include "shapes/kernels.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tracehost::shapes {
namespace {

using testing::HasSubstr;

/// The message of the NotImplementedError of `f`, run without data.
template <class F> std::string rejection(const F &f) {
  const WithoutData mode;
  try {
    f();
  } catch (const c10::NotImplementedError &error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

class WithoutDataTest : public testing::Test {
protected:
  Twins twins;
  at::Tensor x = at::arange(12, at::kFloat).view({4, 3});
  at::Tensor t = twins.of(x);
};

TEST_F(WithoutDataTest, ATwinHasAllButTheMemory) {
  EXPECT_TRUE(is_fake_tensor(t));
  EXPECT_FALSE(is_fake_tensor(x));
  EXPECT_EQ(t.sizes(), x.sizes());
  EXPECT_EQ(t.strides(), x.strides());
  EXPECT_EQ(t.device(), x.device());
  EXPECT_EQ(t.key_set().raw_repr(), x.key_set().raw_repr());
  EXPECT_TRUE(twins.of(x).is_same(t));
  EXPECT_THROW(t.data_ptr(), c10::Error);
}

TEST_F(WithoutDataTest, AnOpGivesAFakeTensor) {
  const WithoutData mode;
  const at::Tensor y = at::relu(t.matmul(at::ones({3, 5})) + 1);
  EXPECT_TRUE(is_fake_tensor(y));
  EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{4, 5}));
  EXPECT_TRUE(y.device().is_cpu());
}

TEST_F(WithoutDataTest, AViewSharesTheStorage) {
  const WithoutData mode;
  const at::Tensor row = t.select(0, 2);
  EXPECT_EQ(row.storage_offset(), 6);
  EXPECT_EQ(row.storage().unsafeGetStorageImpl(), t.storage().unsafeGetStorageImpl());
  EXPECT_TRUE(row.is_view());
}

TEST_F(WithoutDataTest, TwinsShareMemoryAsTheirTensorsDo) {
  const at::Tensor other = twins.of(x.t()), apart = twins.of(x.clone());
  EXPECT_EQ(other.storage().unsafeGetStorageImpl(), t.storage().unsafeGetStorageImpl());
  EXPECT_NE(apart.storage().unsafeGetStorageImpl(), t.storage().unsafeGetStorageImpl());
}

TEST_F(WithoutDataTest, AutogradSeesTheOpsAsInEager) {
  const at::Tensor w = at::ones({3, 2}).requires_grad_(), v = w * 2;
  const at::Tensor leaf = twins.of(w), made = twins.of(v);
  EXPECT_TRUE(leaf.is_leaf() && leaf.requires_grad());
  EXPECT_TRUE(!made.is_leaf() && made.requires_grad());
  const WithoutData mode;
  EXPECT_TRUE(t.matmul(leaf).requires_grad());
  EXPECT_THROW(leaf.add_(1), c10::Error); // of a leaf, as in eager
  EXPECT_NO_THROW(made.add_(1));
}

TEST_F(WithoutDataTest, NothingIsDrawn) {
  const auto generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor before = generator.get_state();
  {
    const WithoutData mode;
    at::dropout(t, 0.5, true);
    at::randn({3});
    at::randperm(7);
    t.multinomial(2);
  }
  EXPECT_TRUE(at::equal(before, generator.get_state()));
}

TEST_F(WithoutDataTest, AnOpInPlaceChangesNoTensorWithData) {
  const WithoutData mode;
  EXPECT_TRUE(t.add_(1).is_same(t));
  EXPECT_THAT(rejection([&] { x.add_(t); }), HasSubstr("into a tensor that has some"));
}

TEST_F(WithoutDataTest, AnOpThatNeedsValuesIsNamed) {
  EXPECT_EQ(needs_data(rejection([&] { t.nonzero(); })), "aten::nonzero");
  EXPECT_EQ(needs_data(rejection([&] { t.sum().item(); })), "aten::_local_scalar_dense");
  EXPECT_EQ(needs_data(rejection([&] { t.index({t > 0}); })), "aten::index");
  EXPECT_EQ(needs_data("mat1 and mat2 shapes cannot be multiplied"), "");
}

TEST_F(WithoutDataTest, ShapesThatDoNotFitAreTheOpsOwnError) {
  const WithoutData mode;
  EXPECT_THROW(t.matmul(t), c10::Error);
  EXPECT_THROW(t.dot(t), c10::Error);
}

TEST_F(WithoutDataTest, ABlockInsideMayRunForReal) {
  const WithoutData mode;
  {
    const WithData for_real;
    EXPECT_EQ((x + 1).sum().item<float>(), 78);
    const WithoutData again;
    EXPECT_TRUE(is_fake_tensor(at::zeros({2})));
  }
  EXPECT_TRUE(is_fake_tensor(at::zeros({2})));
}

TEST_F(WithoutDataTest, ASparseTensorHasATwinWithoutElements) {
  const at::Tensor sparse = at::eye(3).to_sparse(), twin = twins.of(sparse);
  EXPECT_EQ(twin._nnz(), 0);
  const WithoutData mode;
  EXPECT_TRUE((twin + twin).is_sparse());
  EXPECT_TRUE(is_fake_tensor(twin.matmul(t.t().slice(0, 0, 3))));
}

TEST_F(WithoutDataTest, ALargeTensorTakesNoMemory) {
  const WithoutData mode;
  const at::Tensor huge = at::zeros({1 << 20, 1 << 20, 1 << 10});
  EXPECT_EQ((huge + 1).sum(0).sizes(), (std::vector<std::int64_t>{1 << 20, 1 << 10}));
}

/// torch covers them by Python ones once it is imported; then these are the kernels below.
TEST(KernelsTest, StructuredOpsHaveAMetaKernelInCpp) {
  for (const char *name : {"aten::mm", "aten::bmm", "aten::addmm", "aten::tanh", "aten::_softmax",
                           "aten::cumsum", "aten::max_pool2d_with_indices", "aten::gelu"}) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
    EXPECT_TRUE(cpp_kernel(op, c10::DispatchKey::Meta)) << name;
  }
}

} // namespace
} // namespace tracehost::shapes
