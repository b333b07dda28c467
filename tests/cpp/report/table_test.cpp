#include "report/table.h"

#include <gtest/gtest.h>

namespace tracehost::report {
namespace {

TEST(Table, SaysThatNothingWasCalled) {
  EXPECT_EQ(table({}), "tracehost: no Function was called.\n");
}

TEST(Table, HasTheCostliestFirstAndATotal) {
  const std::string text = table({
      {.function = "norm (net.py:3)",
       .calls = 7,
       .hits = 6,
       .traces = 1,
       .inlined = 40,
       .live = 1,
       .nanoseconds = 2'340'000,
       .cause = ""},
      {.function = "loss (train.py:120)",
       .calls = 0,
       .hits = 0,
       .traces = 0,
       .inlined = 3,
       .live = 0,
       .nanoseconds = 0,
       .cause = ""},
      {.function = "step (train.py:12)",
       .calls = 1800,
       .hits = 1795,
       .traces = 5,
       .inlined = 0,
       .live = 5,
       .nanoseconds = 41'180'000,
       .cause = "'lr' value"},
  });
  EXPECT_EQ(text, 1 + R"(
function             calls  hits  traces  inlined  live  hit rate  trace ms  main cause
step (train.py:12)    1800  1795       5        0     5    99.7 %      41.2  'lr' value
norm (net.py:3)          7     6       1       40     1    85.7 %       2.3
loss (train.py:120)      0     0       0        3     0         -       0.0
total                 1807  1801       6       43     6    99.7 %      43.5
)");
}

TEST(Table, AlignsNamesThatAreNotAscii) {
  const std::string text =
      table({{.function = "größe (a.py:1)", .calls = 1, .traces = 1, .cause = ""}});
  EXPECT_NE(text.find("größe (a.py:1)      1     0"), std::string::npos) << text;
}

} // namespace
} // namespace tracehost::report
