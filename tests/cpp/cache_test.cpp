#include "cache/cache.h"
#include "cache/flights.h"

#include "support/signatures.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tracehost {
namespace {

using test::call;
using test::integer;

SpecializationRef make(std::int64_t n, std::uint64_t last_used = 0) {
  auto made = std::make_shared<Specialization>();
  made->signature = call({{"n", integer(n)}});
  made->last_used = last_used;
  return made;
}

/// Refers to an object that is gone.
SpecializationRef make_dead() {
  auto made = std::make_shared<Specialization>();
  made->signature = call({{"o", test::atom(std::make_shared<test::TextAtom>(
                                    "<gone>", std::vector<std::string>{}, false))}});
  made->last_used = 1000;
  return made;
}

template <class List> std::string texts(const List &list) {
  std::string result;
  for (const auto &s : list)
    result += text(s->signature);
  return result;
}

TEST(Cache, KeepsTheOrderOfPublishing) {
  Cache cache(4);
  EXPECT_TRUE(cache.list()->empty());
  for (int n = 1; n <= 3; ++n)
    EXPECT_TRUE(cache.publish(make(n)).empty());
  EXPECT_EQ(texts(*cache.list()), "(n=1)(n=2)(n=3)");
}

TEST(Cache, EvictsTheLeastRecentlyUsedBeyondItsLimit) {
  Cache cache(3);
  cache.publish(make(1, 30));
  cache.publish(make(2, 10));
  cache.publish(make(3, 20));
  EXPECT_EQ(texts(cache.publish(make(4, 5))), "(n=2)");
  EXPECT_EQ(texts(*cache.list()), "(n=1)(n=3)(n=4)");
  cache.list()->back()->last_used = 40;
  EXPECT_EQ(texts(cache.publish(make(5, 50))), "(n=3)");
}

TEST(Cache, NeverEvictsTheOneThatIsAdded) {
  Cache cache(1);
  cache.publish(make(1, 100));
  EXPECT_EQ(texts(cache.publish(make(2, 0))), "(n=1)");
  EXPECT_EQ(texts(*cache.list()), "(n=2)");
}

TEST(Cache, EvictsThoseThatCanNeverMatchAgainFirst) {
  Cache cache(2);
  cache.publish(make(1, 1));
  cache.publish(make_dead());
  EXPECT_EQ(texts(cache.publish(make(2, 2))), "(o=<gone>)");
  EXPECT_EQ(texts(*cache.list()), "(n=1)(n=2)");
}

TEST(Cache, HandsOutListsThatDoNotChange) {
  Cache cache(1);
  cache.publish(make(1));
  const auto before = cache.list();
  cache.publish(make(2));
  EXPECT_EQ(texts(*before), "(n=1)");
  EXPECT_EQ(cache.list(), cache.list());
}

TEST(Cache, MovesItsVersionWithEveryChange) {
  Cache cache(1);
  std::uint64_t first = 0, second = 0, third = 0, same = 0;
  cache.list(&first);
  cache.publish(make(1));
  cache.list(&second);
  cache.clear();
  cache.list(&third);
  cache.list(&same);
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_EQ(third, same);
}

TEST(Cache, GivesBackWhatItClears) {
  Cache cache(4);
  cache.publish(make(1));
  cache.publish(make(2));
  EXPECT_EQ(texts(cache.clear()), "(n=1)(n=2)");
  EXPECT_TRUE(cache.list()->empty());
}

TEST(Cache, RemembersWhatItEvicted) {
  Cache cache(1);
  cache.publish(make(1));
  EXPECT_FALSE(cache.was_evicted("(n=1)"));
  cache.publish(make(2));
  EXPECT_TRUE(cache.was_evicted("(n=1)"));
  EXPECT_FALSE(cache.was_evicted("(n=2)"));
  for (int n = 3; n < 5000; ++n)
    cache.publish(make(n));
  EXPECT_TRUE(cache.was_evicted("(n=4998)"));
}

TEST(Cache, LosesNothingToThreadsThatPublishAtOnce) {
  Cache cache(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        cache.publish(make(t * 50 + i));
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(cache.list()->size(), 200);
}

TEST(Flights, ListWhatIsUnderWay) {
  Flights flights;
  std::uint64_t version = 0;
  EXPECT_TRUE(flights.under_way(version).empty());
  const auto flight = flights.board(call({{"n", integer(1)}}), version);
  ASSERT_TRUE(flight);
  EXPECT_EQ(flight->owner, std::this_thread::get_id());
  const auto listed = flights.under_way(version);
  ASSERT_EQ(listed.size(), 1);
  EXPECT_EQ(text(listed[0]->signature), "(n=1)");
  flights.land(flight);
  EXPECT_TRUE(flights.under_way(version).empty());
}

TEST(Flights, AreBoardedOnlyIfNoneStartedOrEndedSince) {
  Flights flights;
  std::uint64_t before = 0, now = 0;
  flights.under_way(before);
  const auto first = flights.board(call({}), before);
  ASSERT_TRUE(first);
  EXPECT_FALSE(flights.board(call({}), before)) << "one has started";
  flights.under_way(now);
  flights.land(first);
  EXPECT_FALSE(flights.board(call({}), now)) << "one has ended";
  flights.under_way(now);
  EXPECT_TRUE(flights.board(call({}), now));
}

TEST(Flights, AreWaitedForUntilTheyLand) {
  Flights flights;
  std::uint64_t version = 0;
  flights.under_way(version);
  const auto flight = flights.board(call({}), version);
  std::atomic<bool> landing{false};
  std::atomic<int> woken{0};
  std::vector<std::thread> waiters;
  for (int t = 0; t < 4; ++t)
    waiters.emplace_back([&] {
      flights.wait(flight);
      EXPECT_TRUE(landing);
      ++woken;
    });
  landing = true;
  flights.land(flight);
  for (auto &waiter : waiters)
    waiter.join();
  EXPECT_EQ(woken, 4);
  flights.wait(flight); // landed already: does not block
}

} // namespace
} // namespace tracehost
