#include "report/detector.h"

#include <gtest/gtest.h>

#include <string>

namespace tracehost::report {
namespace {

/// Plays `T` (a call that traced) and `H` (one that did not); says at which calls it warned.
std::string play(Detector &detector, const std::string &calls, std::size_t from = 0) {
  std::string warnings;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i] == 'H') {
      detector.hit();
    } else if (const auto due = detector.traced(); due && due->shown) {
      warnings += (warnings.empty() ? "" : ", ") + std::to_string(from + i + 1) + ": " +
                  std::to_string(due->traces) + " of " + std::to_string(due->calls);
    }
  }
  return warnings;
}
std::string play(const std::string &calls) {
  Detector detector;
  return play(detector, calls);
}
std::string repeat(const std::string &calls, int times) {
  std::string result;
  while (times-- > 0)
    result += calls;
  return result;
}
std::string hits(int count) { return std::string(static_cast<std::size_t>(count), 'H'); }

TEST(Detector, WarnsAtTheFifthOfFiveTraces) { EXPECT_EQ(play("TTTTT"), "5: 5 of 5"); }

TEST(Detector, CountsBeyondTheTwoWarningsWithoutOneThatIsShown) {
  Detector detector;
  play(detector, repeat("T", 6));
  const auto beyond = detector.traced();
  ASSERT_TRUE(beyond);
  EXPECT_EQ(*beyond, (Detector::Due{7, 7, false}));
  EXPECT_FALSE((play(detector, hits(40)), detector.traced())) << "no longer often enough";
}

TEST(Detector, WarnsTwiceAtMost) {
  EXPECT_EQ(play(repeat("T", 10)), "5: 5 of 5, 6: 6 of 6");
  EXPECT_EQ(play(repeat("T", 11)), "5: 5 of 5, 6: 6 of 6");
  EXPECT_EQ(play(repeat("T", 1000)), "5: 5 of 5, 6: 6 of 6");
}

TEST(Detector, KeepsAnOldBucketUntilMoreThanTenCallsFollowIt) {
  EXPECT_EQ(play("T" + hits(22) + "TTTT"), "27: 5 of 27");
}

TEST(Detector, WarnsWhereEverySecondOrThirdCallTraces) {
  EXPECT_EQ(play(repeat("TH", 20)), "9: 5 of 9, 11: 6 of 11");
  EXPECT_EQ(play(repeat("THH", 20)), "13: 5 of 13, 16: 5 of 13");
}

TEST(Detector, IsSilentWhereEveryFourthCallTraces) { EXPECT_EQ(play(repeat("THHH", 100)), ""); }

TEST(Detector, StillWarnsSixHitsAfterFourTracesButNotSeven) {
  EXPECT_EQ(play("TTTT" + hits(6) + "T"), "11: 5 of 11");
  EXPECT_EQ(play("TTTT" + hits(7) + "T"), "");
  EXPECT_EQ(play("TTTT" + hits(50) + "T"), "");
}

TEST(Detector, WarnsAgainAfterALongQuietTime) {
  EXPECT_EQ(play("TTTTT" + hits(100) + "TTTTT"), "5: 5 of 5, 109: 5 of 105");
}

TEST(Detector, CountsTheBucketOfLeadingHitsAsATrace) {
  EXPECT_EQ(play("HTTTTT"), "5: 5 of 5, 6: 6 of 6");
}

TEST(Detector, TakesHitsOneByOneOrTogether) {
  Detector one, together;
  EXPECT_EQ(play(one, "T" + hits(22) + "TTTT"), "27: 5 of 27");
  EXPECT_EQ(play(together, "T"), "");
  together.hit(10);
  together.hit(0);
  together.hit(12);
  EXPECT_EQ(play(together, "TTTT", 23), "27: 5 of 27");
}

TEST(Detector, WarnsAtAnotherLimitOrNever) {
  set_retrace_limit(3);
  EXPECT_EQ(play("TTHHHHT"), "7: 3 of 7");
  EXPECT_EQ(play("TTT"), "3: 3 of 3");
  set_retrace_limit(1);
  EXPECT_EQ(play("T"), "1: 1 of 1");
  set_retrace_limit(0);
  EXPECT_EQ(play("TTTTTTTTTT"), "");
  set_retrace_limit(5);
}

} // namespace
} // namespace tracehost::report
