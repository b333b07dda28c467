#include "signature/context.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <thread>

namespace tracehost {
namespace {

/// `field: before -> after` of the only difference.
std::string only(const Context &before, const Context &after) {
  const auto found = differences(before, after);
  EXPECT_EQ(found.size(), 1u);
  return found.empty() ? "" : found[0].field + ": " + found[0].before + " -> " + found[0].after;
}

class AutocastOn {
public:
  AutocastOn() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~AutocastOn() { at::autocast::set_autocast_enabled(at::kCPU, false); }
};

TEST(Context, IsEqualToItself) {
  EXPECT_EQ(Context::now(), Context::now());
  EXPECT_TRUE(differences(Context::now(), Context::now()).empty());
}

TEST(Context, SeesGradMode) {
  const auto before = Context::now();
  const c10::AutoGradMode off(false);
  EXPECT_NE(before, Context::now());
  EXPECT_EQ(only(before, Context::now()), "grad mode: on -> off");
}

TEST(Context, NamesInferenceModeAloneThoughItSwitchesGradModeAndKeysToo) {
  const auto before = Context::now();
  const c10::InferenceMode on;
  EXPECT_EQ(only(before, Context::now()), "inference mode: off -> on");
}

TEST(Context, SeesAutocastWithItsDtype) {
  const auto before = Context::now();
  EXPECT_FALSE(before.autocast());
  const AutocastOn on;
  EXPECT_TRUE(Context::now().autocast());
  EXPECT_EQ(only(before, Context::now()), "autocast on cpu: off -> bfloat16");
}

TEST(Context, SeesTheDefaultDtype) {
  const auto before = Context::now();
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const auto after = Context::now();
  c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
  EXPECT_EQ(only(before, after), "default dtype: float32 -> float64");
}

TEST(Context, SeesDeterministicAlgorithms) {
  const auto before = Context::now();
  at::globalContext().setDeterministicAlgorithms(true, false);
  const auto after = Context::now();
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_EQ(only(before, after), "deterministic algorithms: off -> on");
}

TEST(Context, NamesTheDefaultDevice) {
  Context before, after;
  after.default_device = 1 << 8 | 1;
  EXPECT_EQ(only(before, after), "default device: none -> cuda:0");
}

TEST(Context, NeverDiffersWithoutADifference) {
  Context before = Context::now(), after = before;
  after.included |= c10::DispatchKeySet(c10::DispatchKey::Python).raw_repr();
  EXPECT_EQ(only(before, after).substr(0, 15), "dispatch keys: ");
}

TEST(Context, BelongsToTheThread) {
  const auto before = Context::now();
  const c10::AutoGradMode off(false);
  std::thread([&] { EXPECT_EQ(before, Context::now()); }).join();
}

} // namespace
} // namespace tracehost
