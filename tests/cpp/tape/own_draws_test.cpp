#include "tape/own_draws.h"

#include "tape/generator.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace tracehost::tape {
namespace {

struct Draw {
  const char *name;
  at::Tensor (*draw)(const at::Tensor &);
};

class Draws : public testing::TestWithParam<Draw> {};

TEST_P(Draws, ComeFromACopyOfTheGenerator) {
  const at::NoGradGuard no_grad;
  const auto draw = GetParam().draw;
  const at::Tensor x = at::full({6, 4}, 0.5);
  at::manual_seed(7);
  const at::Tensor before = state_of_generator();
  std::vector<at::Tensor> own;
  {
    const OwnDraws draws(before);
    own = {draw(x), draw(x)};
    EXPECT_TRUE(state_of_generator().equal(before));
  }
  EXPECT_TRUE(state_of_generator().equal(before));
  EXPECT_TRUE(draw(x).equal(own[0]));
  EXPECT_TRUE(draw(x).equal(own[1]));
  EXPECT_FALSE(state_of_generator().equal(before));
}

INSTANTIATE_TEST_SUITE_P(
    Tape, Draws,
    testing::Values(
        Draw{"rand", [](const at::Tensor &x) { return at::rand(x.sizes()); }},
        Draw{"randn_like", [](const at::Tensor &x) { return at::randn_like(x); }},
        Draw{"randint", [](const at::Tensor &) { return at::randint(0, 1 << 30, {3}); }},
        Draw{"randperm", [](const at::Tensor &) { return at::randperm(50); }},
        Draw{"bernoulli", [](const at::Tensor &x) { return at::bernoulli(x); }},
        Draw{"normal", [](const at::Tensor &x) { return at::normal(x, 2.0); }},
        Draw{"exponential", [](const at::Tensor &x) { return x.clone().exponential_(); }},
        Draw{"multinomial", [](const at::Tensor &x) { return at::multinomial(x, 30, true); }},
        Draw{"poisson", [](const at::Tensor &x) { return at::poisson(x * 100); }},
        Draw{"gamma", [](const at::Tensor &x) { return at::_standard_gamma(x); }},
        Draw{"dropout", [](const at::Tensor &x) { return at::dropout(x, 0.5, true); }},
        Draw{"alpha_dropout", [](const at::Tensor &x) { return at::alpha_dropout(x, 0.5, true); }},
        Draw{"native_dropout",
             [](const at::Tensor &x) { return std::get<0>(at::native_dropout(x, 0.5, true)); }},
        Draw{"rrelu", [](const at::Tensor &x) { return at::rrelu(x - 1, 0.1, 0.9, true); }},
        Draw{"attention",
             [](const at::Tensor &x) {
               const at::Tensor heads = x.reshape({1, 1, 6, 4});
               return at::scaled_dot_product_attention(heads, heads, heads, {}, 0.5);
             }}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(OwnDraws, LeaveAGeneratorOfTheUsersAlone) {
  at::manual_seed(7);
  at::Generator given = at::make_generator<at::CPUGeneratorImpl>(3);
  const at::Tensor first = at::rand({4}, given);
  given.set_current_seed(3);
  const OwnDraws draws(state_of_generator());
  EXPECT_TRUE(at::rand({4}, given).equal(first));
}

} // namespace
} // namespace tracehost::tape
