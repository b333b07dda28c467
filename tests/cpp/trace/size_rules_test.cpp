#include "support/frontend.h"
#include "trace/size.h"
#include "trace/tracer.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Each rule against torch's own kernels. The sizes lie below, at and above the numbers that the op
/// is given. Others are 0, 1, and far above the size of the trace.

namespace tracehost::trace {
namespace {

using Tensors = std::vector<at::Tensor>;

struct RuleCase {
  const char *name;
  std::vector<std::int64_t> shape; ///< -1: the dynamic dimension
  std::function<Tensors(const at::Tensor &)> op;
  std::int64_t traced = 40;  ///< the size at the trace
  std::int64_t most = 10000; ///< of the sizes that are tried: the op needs the square of it
};

at::Tensor made(const at::Tensor &x, std::vector<std::int64_t> sizes) {
  return at::ones(sizes, x.options());
}

at::Tensor indices(const at::Tensor &x, std::vector<std::int64_t> sizes) {
  return at::zeros(sizes, x.options().dtype(at::kLong));
}

const std::optional<std::int64_t> kNone;

const std::vector<RuleCase> kCases = {
    {"slice from", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, 7)}; }},
    {"slice to", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, 0, 64)}; }},
    {"slice last", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, -1024)}; }},
    {"slice but last", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, 0, -5)}; }},
    {"slice both", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, 50, 90)}; }},
    {"slice mixed", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, 50, -20)}; }, 100},
    {"slice back", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, -50, 30)}; }},
    {"slice step", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, 3, 90, 7)}; }},
    {"slice twice", {-1, 2}, [](auto &x) { return Tensors{x.slice(0, 1).slice(0, -9, -1)}; }},
    {"view",
     {-1, 6},
     [](auto &x) {
       return Tensors{x.view({2, -1}), x.view({-1, 2, 3})};
     }},
    {"reshape",
     {-1, 6},
     [](auto &x) {
       return Tensors{x.t().reshape({-1}), x.reshape({3, -1})};
     }},
    {"flatten",
     {2, -1, 3},
     [](auto &x) {
       return Tensors{x.flatten(), x.flatten(1)};
     }},
    {"unflatten",
     {-1, 6},
     [](auto &x) {
       return Tensors{x.flatten().unflatten(0, {-1, 3})};
     }},
    {"permute",
     {2, -1, 3},
     [](auto &x) {
       return Tensors{x.permute({1, 2, 0}), x.mT()};
     }},
    {"movedim",
     {2, -1, 3},
     [](auto &x) {
       return Tensors{x.movedim(1, 0), x.movedim({0, 1}, {2, 0})};
     }},
    {"unsqueeze",
     {2, -1},
     [](auto &x) {
       return Tensors{x.unsqueeze(1), x.unsqueeze(-1).squeeze(-1)};
     }},
    {"diagonal",
     {-1, 50},
     [](auto &x) {
       return Tensors{x.diagonal(), x.diagonal(3), x.diagonal(-3)};
     }},
    {"unfold",
     {-1, 2},
     [](auto &x) {
       return Tensors{x.unfold(0, 5, 3), x.unfold(0, 1, 1)};
     }},
    {"expand",
     {-1, 1},
     [](auto &x) {
       return Tensors{x.expand({3, -1, 4})};
     }},
    {"repeat",
     {-1, 2},
     [](auto &x) {
       return Tensors{x.repeat({2, 3, 1}), x.tile({3}), x.repeat_interleave(4, 0),
                      x.repeat_interleave(2)};
     }},
    {"cat",
     {-1, 2},
     [](auto &x) {
       return Tensors{at::cat({x, x.slice(0, 5), x}), at::stack({x, x}), at::hstack({x, x}),
                      at::vstack({x, x})};
     }},
    {"elementwise",
     {-1, 2},
     [](auto &x) {
       return Tensors{x + made(x, {2}), x * x.slice(0, 0, 1), x.exp(), at::where(x > 0, x, x)};
     }},
    {"tensor_split", {-1, 2}, [](auto &x) { return x.tensor_split(3); }},
    {"tensor_split at",
     {-1, 2},
     [](auto &x) {
       return x.tensor_split({7, 30, 60});
     }},
    {"chunk", {-1, 2}, [](auto &x) { return x.chunk(2); }},
    {"split", {-1, 2}, [](auto &x) { return x.split(2000); }},
    {"split sizes",
     {-1, 2},
     [](auto &x) {
       return x.flatten().slice(0, 0, 6).split_with_sizes({2, 4});
     }},
    {"unbind", {-1, 2}, [](auto &x) { return x.unbind(1); }},
    {"index_select",
     {-1, 2},
     [](auto &x) {
       return Tensors{x.index_select(1, indices(x, {5})), x.t().gather(0, indices(x, {1, 3}))};
     }},
    {"index",
     {-1, 3, 4},
     [](auto &x) {
       return Tensors{x.index({{}, indices(x, {7})}), x.index({{}, {}, indices(x, {2, 1})}),
                      x.index({{}, indices(x, {7}), indices(x, {7})})};
     }},
    {"reductions",
     {3, -1, 2},
     [](auto &x) {
       // A bare {0, 2} is ambiguous on torch 2.11.
       return Tensors{x.sum(0),
                      x.mean(at::IntArrayRef{0, 2}, true),
                      x.amax({2}),
                      std::get<0>(x.max(2)),
                      x.argmax(0),
                      x.std({0}, 0),
                      x.logsumexp(at::IntArrayRef{0, -1}),
                      x.norm(2, {0}),
                      x.all(0)};
     }},
    {"kept",
     {3, -1, 2},
     [](auto &x) {
       return Tensors{x.softmax(1),           x.cumsum(1), x.flip({1}), x.roll(3, 1),
                      std::get<0>(x.sort(1)), x.tril(),    x.clone(),   x.to(at::kDouble),
                      at::zeros_like(x)};
     }},
    {"factories",
     {-1, 2},
     [](auto &x) {
       return Tensors{at::zeros_like(x).new_zeros({2, 3}), x};
     }},
    {"products",
     {2, -1, 4},
     [](auto &x) {
       return Tensors{
           x.matmul(made(x, {4, 5})),       x.bmm(x.transpose(1, 2)),
           at::linear(x, made(x, {7, 4})),  x.matmul(made(x, {4})),
           x[0].mm(made(x, {4, 3})),        at::addmm(made(x, {3}), x[0], made(x, {4, 3})),
           at::cdist(x, made(x, {2, 9, 4}))};
     },
     40,
     1100},
    {"einsum",
     {2, -1, 4},
     [](auto &x) {
       return Tensors{at::einsum("bij,bkj->bik", {x, x}), at::einsum("bij", {x}),
                      at::einsum("bij,jk", {x, made(x, {4, 3})})};
     },
     40,
     1100},
    {"conv1d",
     {1, 3, -1},
     [](auto &x) {
       return Tensors{at::conv1d(x, made(x, {2, 3, 5}), {}, 3, 2, 2),
                      at::conv1d(x, made(x, {2, 3, 4}))};
     }},
    {"conv same",
     {1, 3, -1},
     [](auto &x) {
       return Tensors{at::conv1d(x, made(x, {2, 3, 5}), {}, 1, "same"),
                      at::conv1d(x, made(x, {2, 3, 5}), {}, 2, "valid")};
     }},
    {"conv2d",
     {1, 3, -1, 9},
     [](auto &x) {
       return Tensors{at::conv2d(x, made(x, {2, 3, 3, 3}), {}, {2, 1}, {1, 1})};
     }},
    {"conv_transpose",
     {1, 3, -1},
     [](auto &x) {
       return Tensors{at::conv_transpose1d(x, made(x, {3, 2, 5}), {}, 3, 2, 1, 1, 2)};
     }},
    {"pools",
     {1, 3, -1},
     [](auto &x) {
       return Tensors{at::max_pool1d(x, 3), at::max_pool1d(x, 4, 3, 2, 2),
                      at::avg_pool1d(x, 5, 2, 1)};
     }},
    {"pools, ceil",
     {1, 3, -1, 9},
     [](auto &x) {
       return Tensors{at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true),
                      at::avg_pool2d(x, {4, 4}, {3, 3}, {2, 2}, true),
                      at::max_pool2d(x, {2, 2}, {5, 5}, {0, 0}, {1, 1}, true)};
     }},
    {"adaptive",
     {1, 3, -1, -1},
     [](auto &x) {
       return Tensors{x.sum(3), at::adaptive_avg_pool2d(x, {3, 4}).sum(3)};
     },
     40,
     1100},
    {"pads",
     {1, 3, -1},
     [](auto &x) {
       return Tensors{at::constant_pad_nd(x, {3, -5}), at::reflection_pad1d(x, {2, 7}),
                      at::pad(x, {1, 2, 3, 4})};
     }},
    {"upsample",
     {1, 3, -1},
     [](auto &x) {
       return Tensors{
           at::upsample_nearest1d(x, at::OptionalIntArrayRef{}, std::vector<double>{1.5}),
           at::upsample_linear1d(x, at::OptionalIntArrayRef{}, false, std::vector<double>{0.25}),
           at::upsample_nearest1d(x, at::OptionalIntArrayRef{}, std::vector<double>{3.0})};
     }},
    {"im2col",
     {1, 3, -1, 9},
     [](auto &x) {
       return Tensors{at::im2col(x, {3, 2}, {1, 2}, {1, 0}, {2, 1})};
     }},
    {"embedding",
     {-1},
     [](auto &x) {
       return Tensors{at::embedding(made(x, {9, 4}), x.to(at::kLong)),
                      at::one_hot(x.to(at::kLong), 41)};
     }},
    {"attention",
     {2, 2, -1, 4},
     [](auto &x) { return Tensors{at::scaled_dot_product_attention(x, x, x)}; },
     40,
     1100},
    {"norms",
     {2, 4, -1},
     [](auto &x) {
       return Tensors{at::group_norm(x, 2), at::layer_norm(x.transpose(1, 2), {4}),
                      at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false)};
     }},
    {"topk",
     {-1, 3},
     [](auto &x) {
       return Tensors{std::get<0>(x.topk(2, 1)), std::get<0>(x.kthvalue(1, 1))};
     }},
    {"diff",
     {-1, 3},
     [](auto &x) {
       return Tensors{x.diff(), x.diff(1, 0), x.diff(3, 0)};
     }},
    {"fourier",
     {-1, 3},
     [](auto &x) {
       return Tensors{at::fft_rfft(x, kNone, 0), at::fft_fft(x, 7, 0)};
     }},
    {"pixels",
     {1, 4, -1, 4},
     [](auto &x) {
       return Tensors{at::pixel_shuffle(x, 2), at::pixel_unshuffle(at::pixel_shuffle(x, 2), 2)};
     }},
    {"losses",
     {-1, 3},
     [](auto &x) {
       return Tensors{at::mse_loss(x, x, 0), at::cross_entropy_loss(x, x, {}, 0)};
     }},
    {"rot90",
     {-1, 3},
     [](auto &x) {
       return Tensors{x.rot90(), x.rot90(2), at::diag_embed(x)};
     },
     40,
     1100},
};

/// The dynamic dimension has this size.
class One final : public SizeSource {
public:
  explicit One(std::int64_t n) : n_(n) {}
  std::int64_t size(std::int32_t, std::int32_t) const override { return n_; }

private:
  std::int64_t n_;
};

std::vector<std::int64_t> with(std::vector<std::int64_t> shape, std::int64_t n) {
  for (std::int64_t &size : shape)
    if (size == -1)
      size = n;
  return shape;
}

/// A size of a result: the number that it always is, or its expression.
struct Found {
  std::optional<std::int64_t> number;
  SizeExpression expression;
  std::vector<SizeCondition> conditions; ///< that it holds under
};

DynamicDimensions open_dimensions(const RuleCase &rule) {
  DynamicDimensions dynamic{{}, {}, MaySpecialize::all, {"x"}};
  for (std::size_t d = 0; d < rule.shape.size(); ++d)
    if (rule.shape[d] == -1)
      dynamic.dimensions.push_back({0, static_cast<std::int32_t>(d)});
  return dynamic;
}

/// What a trace finds of size `d` of result `r`.
Found found_size(const RuleCase &rule, std::size_t r, std::int64_t d) {
  test::FakeFrontend frontend;
  Found found;
  const at::Tensor x = at::zeros(with(rule.shape, rule.traced));
  const DynamicDimensions dynamic = open_dimensions(rule);
  const Traced traced = trace({x}, dynamic, frontend, [&] {
    const Tensors results = rule.op(x);
    const auto size = traced_size(results[r], d);
    if (size)
      EXPECT_TRUE((*size == results[r].size(d)).is_nonzero());
    else
      found.number = results[r].size(d);
    return results;
  });
  EXPECT_TRUE(traced.specialized.empty()) << "no rule";
  found.conditions = traced.conditions;
  if (!found.number && !found.conditions.empty()) {
    found.expression = found.conditions.back().expression;
    found.expression.resize(found.expression.size() - 2); // the number, and `equal`
    found.conditions.pop_back();
  }
  return found;
}

class SizeRulesTest : public testing::TestWithParam<RuleCase> {};

TEST_P(SizeRulesTest, SaysWhatTheOpDoes) {
  const RuleCase &rule = GetParam();
  std::vector<std::vector<Found>> found;
  const Tensors results = rule.op(at::zeros(with(rule.shape, rule.traced)));
  for (std::size_t r = 0; r < results.size(); ++r) {
    found.emplace_back();
    for (std::int64_t d = 0; d < results[r].dim(); ++d)
      found[r].push_back(found_size(rule, r, d));
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 0; n < 110; ++n)
    sizes.push_back(n);
  for (const std::int64_t n : {1023, 1024, 1025, 1999, 2000, 2001, 5000, 9999, 10000})
    if (n <= rule.most)
      sizes.push_back(n);
  int compared = 0;
  for (const std::int64_t n : sizes) {
    Tensors at_n;
    try {
      at_n = rule.op(at::zeros(with(rule.shape, n)));
    } catch (const std::exception &) {
      continue; // the op does not take that size
    }
    for (std::size_t r = 0; r < found.size(); ++r)
      for (std::size_t d = 0; d < found[r].size(); ++d) {
        const Found &one = found[r][d];
        const One size(n);
        if (!std::all_of(one.conditions.begin(), one.conditions.end(),
                         [&](const SizeCondition &c) { return holds(c, size); }))
          continue;
        ASSERT_EQ(at_n.size(), found.size()) << "at " << n;
        ASSERT_EQ(static_cast<std::size_t>(at_n[r].dim()), found[r].size()) << r << " at " << n;
        const auto expected = one.number ? one.number : evaluate(one.expression, size);
        EXPECT_EQ(expected, at_n[r].size(static_cast<std::int64_t>(d)))
            << "size " << d << " of result " << r << " at " << n;
        ++compared;
      }
  }
  EXPECT_GT(compared, 20);
}

INSTANTIATE_TEST_SUITE_P(All, SizeRulesTest, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<RuleCase> &info) {
                           std::string name;
                           for (const char c : std::string(info.param.name))
                             if (std::isalnum(static_cast<unsigned char>(c)))
                               name += c;
                           return name;
                         });

TEST(SizeTest, EqualSizesHaveOneForm) {
  const Size n = Size::input(0, 0), m = Size::input(1, 0);
  EXPECT_EQ(floor_divide(n + 2 - 3, 1) + 1, n);
  EXPECT_EQ(floor_divide(n * 2 + 1, 2), n);
  EXPECT_EQ(floor_divide(n - 1, 2) + 1, floor_divide(n + 1, 2));
  EXPECT_EQ(smaller(n, n - 1), n - 1);
  EXPECT_EQ(smaller(n, 6), smaller(6, n));
  EXPECT_EQ(smaller(n - larger(n - 4, 0), n), n - larger(n - 4, 0));
  EXPECT_EQ(exact_quotient(n * m * 4, n), m * 4);
  EXPECT_EQ(exact_quotient(n * 4 + 4, n + 1), Size(4));
  EXPECT_EQ(larger(n, 0), n);
  EXPECT_EQ(smaller(n, 2) + larger(n - 2, 0), n);
  EXPECT_EQ(smaller(n - 3, m - 5), smaller(m, n + 2) - 5);
  EXPECT_TRUE(larger(n - 7, 0).is_at_least(0) && floor_divide(larger(n - 7, 0), 2).is_at_least(0));
  EXPECT_FALSE(n == m || smaller(n, 6) == n);
  EXPECT_FALSE(Size().known() || (n + Size()).known() || Size() == Size());
}

TEST(SizeTest, WhatIsTooLongIsNotKnown) {
  Size size = Size::input(0, 0);
  for (int i = 0; i < 200 && size.known(); ++i)
    size = smaller(size + i, Size::input(1, 0) + 2 * i);
  EXPECT_FALSE(size.known());
}

} // namespace
} // namespace tracehost::trace
