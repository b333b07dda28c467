#include "cache/cache.h"
#include "cache/flights.h"

#include "program/program.h"
#include "support/signatures.h"

#include <torch/csrc/jit/ir/irparser.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

namespace tracehost {
namespace {

using test::call;
using test::integer;

SpecializationRef make(std::int64_t n, std::uint64_t trace_ns = 1'000'000,
                       std::size_t bytes = 10'000) {
  auto made = std::make_shared<Specialization>();
  made->signature = call({{"n", integer(n)}});
  made->trace_ns = trace_ns;
  made->bytes = bytes;
  return made;
}

void hit(Specialization &s, std::uint64_t times = 1) { s.hits += times; }

/// Refers to an object that is gone.
SpecializationRef make_dead() {
  auto made = std::make_shared<Specialization>();
  made->signature = call({{"o", test::atom(std::make_shared<test::TextAtom>(
                                    "<gone>", std::vector<std::string>{}, false))}});
  made->trace_ns = 1'000'000'000;
  return made;
}

template <class List> std::string texts(const List &list) {
  std::string result;
  for (const auto &s : list)
    result += text(s->signature);
  return result;
}

/// A wait for the device would keep other threads of Python from running.
TEST(Specialization, OnADeviceRunsWithoutTheGil) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR("graph(%x : Tensor):\n  return (%x)", graph.get());
  Specialization made;
  made.program = std::make_unique<Program>(graph, "f", 1);
  TensorMeta slot = test::meta({3});
  made.signature.slots.push_back(slot);
  EXPECT_FALSE(made.runs_without_gil());
  slot.device = c10::Device(c10::kCUDA, 0);
  made.signature.slots.push_back(slot);
  EXPECT_TRUE(made.runs_without_gil());
}

TEST(Cache, KeepsTheOrderOfPublishing) {
  Cache cache(4);
  EXPECT_TRUE(cache.list()->empty());
  for (int n = 1; n <= 3; ++n)
    EXPECT_TRUE(cache.publish(make(n)).empty());
  EXPECT_EQ(texts(*cache.list()), "(n=1)(n=2)(n=3)");
}

TEST(Cache, EvictsTheOneNotUsedForLongestOfEquals) {
  Cache cache(3);
  for (int n = 1; n <= 3; ++n)
    cache.publish(make(n));
  hit(*cache.list()->front());
  EXPECT_EQ(texts(cache.publish(make(4))), "(n=2)");
  EXPECT_EQ(texts(cache.publish(make(5))), "(n=3)");
  EXPECT_EQ(texts(*cache.list()), "(n=1)(n=4)(n=5)");
}

TEST(Cache, KeepsWhatTakesLongToRebuild) {
  Cache cache(4);
  cache.publish(make(0, 100'000'000));
  for (int n = 1; n < 7; ++n)
    cache.publish(make(n, 1'000'000));
  EXPECT_EQ(texts(*cache.list()), "(n=0)(n=4)(n=5)(n=6)");
  for (int n = 7; n < 20; ++n)
    cache.publish(make(n, 1'000'000));
  EXPECT_EQ(texts(*cache.list()), "(n=16)(n=17)(n=18)(n=19)") << "but not for ever";
}

TEST(Cache, KeepsWhatIsSmall) {
  Cache cache(2);
  cache.publish(make(1, 1'000'000, 1'000));
  cache.publish(make(2, 1'000'000, 1'000'000));
  EXPECT_EQ(texts(cache.publish(make(3, 1'000'000, 1'000))), "(n=2)");
}

TEST(Cache, CountsTheHitsBetweenTwoTracesAsOneUse) {
  Cache cache(3);
  for (int n = 1; n <= 3; ++n)
    cache.publish(make(n));
  hit(*(*cache.list())[0], 1'000'000);
  hit(*(*cache.list())[1], 1);
  cache.publish(make(4)); // evicts 3
  hit(*(*cache.list())[1]);
  EXPECT_EQ(texts(cache.publish(make(5))), "(n=4)");
  EXPECT_EQ(texts(cache.publish(make(6))), "(n=1)") << "used once, and longer ago than 2";
}

TEST(Cache, NeverEvictsTheOneThatIsAdded) {
  Cache cache(1);
  cache.publish(make(1, 100'000'000));
  EXPECT_EQ(texts(cache.publish(make(2, 1, 100'000'000))), "(n=1)");
  EXPECT_EQ(texts(*cache.list()), "(n=2)");
}

TEST(Cache, EvictsThoseThatCanNeverMatchAgainFirst) {
  Cache cache(2);
  cache.publish(make(1));
  cache.publish(make_dead());
  EXPECT_EQ(texts(cache.publish(make(2))), "(o=<gone>)");
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

/// Plays calls of signatures that cost what `cost` says, and counts.
struct Played {
  std::size_t traces = 0;
  std::uint64_t cost = 0; ///< of all traces
};

Played play(Cache &cache, const std::vector<int> &calls,
            const std::function<std::uint64_t(int)> &cost) {
  Played played;
  for (const int n : calls) {
    const auto list = cache.list();
    const std::string wanted = text(make(n)->signature);
    const auto found = std::find_if(list->begin(), list->end(),
                                    [&](const auto &s) { return text(s->signature) == wanted; });
    if (found != list->end()) {
      hit(**found);
      continue;
    }
    cache.publish(make(n, cost(n)));
    ++played.traces;
    played.cost += cost(n);
  }
  return played;
}

Played play_lru(std::size_t limit, const std::vector<int> &calls,
                const std::function<std::uint64_t(int)> &cost) {
  Played played;
  std::vector<int> live; // least recently used first
  for (const int n : calls) {
    if (std::erase(live, n) == 0) {
      ++played.traces;
      played.cost += cost(n);
      if (live.size() == limit)
        live.erase(live.begin());
    }
    live.push_back(n);
  }
  return played;
}

const auto equal_cost = [](int) { return std::uint64_t{1'000'000}; };

TEST(Eviction, CostsLessThanTheLeastRecentlyUsedWhereCostsDiffer) {
  // An evaluation step that takes long to trace, between many cheap ones.
  std::vector<int> calls;
  for (int round = 0; round < 50; ++round) {
    calls.push_back(0);
    for (int n = 0; n < 12; ++n)
      calls.push_back(1 + (round * 12 + n) % 30);
  }
  const auto cost = [](int n) { return std::uint64_t{n == 0 ? 500'000'000u : 1'000'000u}; };
  Cache cache(8);
  const Played ours = play(cache, calls, cost), lru = play_lru(8, calls, cost);
  EXPECT_EQ(lru.cost / 1'000'000, 50 * 500 + 600);
  EXPECT_EQ(ours.cost / 1'000'000, 500 + 600);
}

TEST(Eviction, IsNotFlushedByAScanOfSignaturesThatComeOnce) {
  std::vector<int> hot, calls;
  for (int n = 0; n < 40; ++n)
    hot.push_back(n);
  calls = hot;
  for (int once = 0; once < 100; ++once) {
    calls.push_back(1000 + once);
    calls.insert(calls.end(), hot.begin(), hot.end());
  }
  for (int once = 0; once < 64; ++once) // as many as the cache holds, without a break
    calls.push_back(2000 + once);
  Cache cache(64);
  play(cache, calls, equal_cost);
  EXPECT_EQ(play(cache, hot, equal_cost).traces, 0u);
  const std::size_t before = play_lru(64, calls, equal_cost).traces;
  calls.insert(calls.end(), hot.begin(), hot.end());
  EXPECT_EQ(play_lru(64, calls, equal_cost).traces - before, 40u) << "the least recently used is";
}

TEST(Eviction, LetsANewWorkingSetInHoweverHotTheOldOneWas) {
  Cache cache(16);
  std::vector<int> old, fresh;
  for (int i = 0; i < 1000; ++i)
    old.push_back(i % 16);
  for (int i = 0; i < 12; ++i) { // and a few in between, so that the old ones were used often
    old.push_back(500 + i);
    for (int n = 0; n < 16; ++n)
      old.push_back(n);
  }
  play(cache, old, equal_cost);
  for (int i = 0; i < 400; ++i)
    fresh.push_back(100 + i % 6);
  EXPECT_LE(play(cache, fresh, equal_cost).traces, 60u);
  EXPECT_EQ(play(cache, {100, 101, 102, 103, 104, 105}, equal_cost).traces, 0u);
}

TEST(Eviction, GivesOneThatComesBackItsFormerUses) {
  Eviction eviction(16);
  auto first = make(1), second = make(2);
  eviction.tick({});
  eviction.enter(*first, 1);
  EXPECT_EQ(first->use.frequency, 1);
  eviction.remember(1, *first);
  EXPECT_TRUE(eviction.remembers(1));
  for (int i = 0; i < 4; ++i) // a half-life
    eviction.tick({});
  auto back = make(1);
  eviction.enter(*back, 1);
  eviction.enter(*second, 2);
  EXPECT_EQ(back->use.frequency, 1.5);
  EXPECT_EQ(second->use.frequency, 1);
  EXPECT_EQ(eviction.least({back, second}), 1u);
}

TEST(Eviction, NeedsNothingOfAHitButItsCounter) {
  Eviction eviction(16);
  auto s = make(1);
  eviction.tick({});
  eviction.enter(*s, 1);
  for (int i = 0; i < 4; ++i)
    eviction.tick({s});
  EXPECT_EQ(s->use.frequency, 1) << "as of the tick of its last use";
  EXPECT_EQ(s->use.tick, 1u);
  hit(*s, 12);
  eviction.tick({s});
  EXPECT_EQ(s->use.tick, 6u);
  EXPECT_EQ(s->use.hits, 12u);
  EXPECT_NEAR(s->use.frequency, 1 + std::exp2(-5.0 / 4), 1e-12);
}

TEST(EstimatedBytes, CountTheTensorsThatNothingElseHolds) {
  Specialization s;
  const std::size_t bare = estimated_bytes(s);
  s.signature.captures.push_back({"self.w", test::meta({1000})});
  EXPECT_LT(estimated_bytes(s) - bare, 1000u);
  s.signature.captures.push_back({"a tensor first used at net.py:7", test::meta({1000})});
  s.signature.captures.back().held = true;
  EXPECT_GE(estimated_bytes(s) - bare, 4000u);
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
