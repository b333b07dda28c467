#include "function/negative_cache.h"

#include "support/signatures.h"

#include <gtest/gtest.h>

namespace tracehost {
namespace {

class NegativeCacheTest : public testing::Test {
protected:
  const Signature signature = test::call({{"n", test::integer(1)}});
  const NegativeCache::Call own{signature}, of_failed{signature, true};
  NegativeCache cache;
};

TEST_F(NegativeCacheTest, AnAbandonedTraceBacksOffAtOnceAndFurtherEachTime) {
  for (const int calls : {32, 64, 128, 256, 512, 1024, 1024}) {
    cache.abandoned(of_failed);
    for (int i = 0; i < calls; ++i)
      EXPECT_TRUE(cache.skips(of_failed, false));
    EXPECT_FALSE(cache.skips(of_failed, false));
  }
}

TEST_F(NegativeCacheTest, CallsWhoseChecksFailHaveRowsOfTheirOwn) {
  cache.abandoned(of_failed);
  EXPECT_FALSE(cache.skips(own, false));
  EXPECT_EQ(cache.left(own), 0u);
  EXPECT_EQ(cache.left(of_failed), 32u);
}

TEST_F(NegativeCacheTest, HitsStartNoTraceOfAnotherOutcomeFromTheBeginning) {
  for (std::uint64_t hits = 0; hits < 7; ++hits)
    EXPECT_EQ(cache.traced(of_failed, 10 * hits), 0u);
  EXPECT_EQ(cache.traced(of_failed, 70), 32u);
}

TEST_F(NegativeCacheTest, GraphsPauseWhereMoreChecksFailThanCallsHit) {
  for (int i = 0; i < 7; ++i)
    EXPECT_FALSE(cache.pauses(signature, 0));
  EXPECT_TRUE(cache.pauses(signature, 0));
  EXPECT_TRUE(cache.pauses(signature, 0)) << "the next one that was tried";
  EXPECT_TRUE(cache.pauses(signature, 1));
  EXPECT_FALSE(cache.pauses(signature, 5)) << "hits between";
  std::uint64_t hits = 5;
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(cache.pauses(signature, hits += 3)) << "a call in four fails";
}

TEST_F(NegativeCacheTest, AWideTraceIsRememberedAsSuch) {
  cache.add(signature, NegativeCache::Why::too_wide);
  EXPECT_TRUE(cache.is_too_wide(signature));
  EXPECT_FALSE(cache.is_wrong(signature));
  EXPECT_FALSE(cache.skips(own, true)) << "such a call is traced";
}

} // namespace
} // namespace tracehost
