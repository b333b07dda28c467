#include "report/contrast.h"

#include <gtest/gtest.h>

namespace tracehost::report {
namespace {

TEST(ContrastTest, SaysOfEachCauseWhatTheCallIs) {
  const auto says = [](Cause cause, const char *path, const char *before, const char *after) {
    return contrast(
        {.cause = cause, .path = path, .dimension = 1, .before = before, .after = after});
  };
  EXPECT_EQ(says(Cause::shape, "x", "12", "15"), "argument 'x', dimension 1, is 15, not 12");
  EXPECT_EQ(says(Cause::rank, "x", "[2]", "[2, 3]"), "argument 'x' has shape [2, 3], not [2]");
  EXPECT_EQ(says(Cause::dtype, "x", "int64", "float32"),
            "argument 'x' has dtype float32, not int64");
  EXPECT_EQ(says(Cause::device, "b['y']", "cpu", "cuda:0"),
            "argument \"b['y']\" is on cuda:0, not cpu");
  EXPECT_EQ(says(Cause::structure, "x", "tuple of 1", "tuple of 2"),
            "argument 'x' is built as tuple of 2, not tuple of 1");
  EXPECT_EQ(says(Cause::context, "grad mode", "on", "off"), "grad mode is off, not on");
  EXPECT_EQ(says(Cause::guarded, "self.k", "1", "2"),
            "'self.k', which the body reads, is 2, not 1");
  EXPECT_EQ(says(Cause::capture, "self.w", "float32[2]", "float64[2]"),
            "captured tensor 'self.w' is float64[2], not float32[2]");
  EXPECT_EQ(says(Cause::object, "m", "<Net object>", "<Net object>"),
            "argument 'm' is another one (<Net object>)");
}

TEST(ContrastTest, StopsAfterAFew) {
  std::vector<Difference> all;
  EXPECT_EQ(contrast(all), "");
  for (const char *name : {"a", "b", "c", "d", "e", "f"})
    all.push_back({.cause = Cause::value, .path = name, .before = "1", .after = "2"});
  EXPECT_EQ(contrast(all), "argument 'a' is 2, not 1; argument 'b' is 2, not 1; argument 'c' is 2, "
                           "not 1; argument 'd' is 2, not 1; and 2 more differences");
}

} // namespace
} // namespace tracehost::report
