#include "report/ledger.h"

#include "report/site_log.h"

#include "support/counters.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>

namespace tracehost::report {
namespace {

using test::function;
using testing::ElementsAre;
using testing::SizeIs;

/// Acts as a Function would: counts, then writes the event.
TraceEvent traced(const std::shared_ptr<Counters> &function, int value) {
  TraceEvent event;
  event.function = function;
  event.call = {"train.py", 40};
  event.first = function->traces++ == 0;
  if (!event.first)
    event.differences = {
        {Cause::value, "lr", -1, std::to_string(value - 1), std::to_string(value)}};
  event.signature = "(lr=" + std::to_string(value) + ")";
  event.nanoseconds = 1'000'000;
  function->trace_ns += event.nanoseconds;
  ++function->live;
  return event;
}

/// "traces/calls" of a warning.
std::string counts(const std::optional<Due> &due) {
  return due ? std::to_string(due->traces) + "/" + std::to_string(due->calls) : "none";
}

TEST(Ledger, WarnsOnceForTheTraceThatIsDue) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  for (int i = 1; i <= 4; ++i) {
    ledger.on(traced(step, i));
    EXPECT_FALSE(ledger.take_due(*step));
  }
  ledger.on(traced(step, 5));
  const auto due = ledger.take_due(*step);
  ASSERT_TRUE(due);
  EXPECT_STREQ(name(due->kind), "first");
  EXPECT_EQ(counts(due), "5/5");
  EXPECT_EQ(due->account.nanoseconds, 5'000'000u);
  ASSERT_THAT(due->account.records, SizeIs(5));
  EXPECT_EQ(due->account.records.back()->differences.front().after, "5");
  EXPECT_EQ(due->call, (Site{"train.py", 40}));
  EXPECT_FALSE(ledger.take_due(*step));
  EXPECT_FALSE(ledger.take_due(*function("other", 2)));
}

TEST(Ledger, FoldsInTheHitsBeforeItCountsTheTrace) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  ledger.on(traced(step, 1));
  step->hits += 22;
  for (int i = 2; i <= 5; ++i)
    ledger.on(traced(step, i));
  EXPECT_EQ(counts(ledger.take_due(*step)), "5/27");
}

TEST(Ledger, IsSilentWhereEveryFourthCallTraces) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  for (int i = 1; i <= 100; ++i) {
    ledger.on(traced(step, i));
    EXPECT_FALSE(ledger.take_due(*step));
    step->hits += 3;
  }
}

TEST(Ledger, DoesNotCountARequestedTrace) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  auto requested = traced(step, 1);
  requested.counted = false;
  ledger.on(requested);
  step->hits += 1;
  for (int i = 2; i <= 4; ++i)
    ledger.on(traced(step, i));
  EXPECT_FALSE(ledger.take_due(*step));
  ledger.on(traced(step, 5));
  EXPECT_EQ(counts(ledger.take_due(*step)), "5/5");
}

TEST(Ledger, CountsTheFunctionsOfADefinitionSiteTogetherAlsoThoseGone) {
  Ledger ledger;
  for (int i = 1; i <= 5; ++i) {
    const auto step = function();
    ledger.created(step);
    ledger.on(traced(step, 1));
    step->hits += 1;
  }
  const auto due = ledger.take_due(*function());
  ASSERT_TRUE(due);
  EXPECT_EQ(counts(due), "5/9");
  EXPECT_EQ(due->account.records[0]->origin, TraceRecord::Origin::initial);
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(due->account.records[i]->origin, TraceRecord::Origin::again);
    EXPECT_TRUE(due->account.records[i]->seen);
  }
  const auto rows = ledger.rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].function, "step (train.py:12)");
  EXPECT_EQ(rows[0].calls, 10u);
  EXPECT_EQ(rows[0].hits, 5u);
  EXPECT_EQ(rows[0].traces, 5u);
  EXPECT_EQ(rows[0].live, 0u);
}

TEST(Ledger, SaysWhatLeftAFunctionNothingToCompareWith) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  auto event = traced(step, 1);
  event.once = "the body prints";
  ledger.on(event);
  for (int i = 0; i < 2; ++i) {
    event.signature = "(lr=other)"; // another signature: the trace before is what counts
    event.once = i == 0 ? "" : "the body prints";
    ledger.on(event);
  }
  ++step->cleared;
  ledger.on(event);
  ledger.on(event);
  const auto due = ledger.take_due(*step);
  ASSERT_TRUE(due);
  std::vector<std::string> origins, once;
  for (const RecordRef &record : due->account.records) {
    origins.emplace_back(name(record->origin));
    once.push_back(record->was_once);
  }
  EXPECT_THAT(origins, ElementsAre("initial", "emptied", "emptied", "cleared", "emptied"));
  EXPECT_THAT(once, ElementsAre("", "the body prints", "", "the body prints", "the body prints"));
}

TEST(Ledger, HasACauseThatNoWarningHasNamedAsNews) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  for (int i = 1; i <= 20; ++i)
    ledger.on(traced(step, i));
  const auto first = ledger.take_due(*step), second = ledger.take_due(*step);
  ASSERT_TRUE(first && second);
  EXPECT_STREQ(name(second->kind), "second");
  EXPECT_EQ(second->first_call, (Site{"train.py", 40}));
  EXPECT_FALSE(ledger.take_due(*step)) << "the same cause again";
  for (int i = 0; i < 3; ++i) {
    auto event = traced(step, 30 + i);
    event.differences = {{Cause::dtype, "x", -1, "float32", "float64"}};
    ledger.on(event);
  }
  const auto news = ledger.take_due(*step);
  ASSERT_TRUE(news);
  EXPECT_STREQ(name(news->kind), "news");
  EXPECT_FALSE(ledger.take_due(*step)) << "once";
  for (int i = 0; i < 100; ++i) {
    auto event = traced(step, 50 + i);
    event.differences = {{Cause::value, "n" + std::to_string(i), -1, "1", "2"}};
    ledger.on(event);
  }
  std::size_t count = 1;
  while (ledger.take_due(*step))
    ++count;
  EXPECT_EQ(count, SiteLog::most_news);
}

TEST(Ledger, KeepsSitesApart) {
  Ledger ledger;
  const auto a = function("a", 1), b = function("b", 2);
  ledger.created(a);
  ledger.created(b);
  for (int i = 1; i <= 4; ++i) {
    ledger.on(traced(a, i));
    ledger.on(traced(b, i));
  }
  EXPECT_FALSE(ledger.take_due(*a));
  ledger.on(traced(b, 5));
  EXPECT_FALSE(ledger.take_due(*a));
  EXPECT_TRUE(ledger.take_due(*b));
}

TEST(Ledger, HasARowForEachDefinitionThatWasCalled) {
  Ledger ledger;
  const auto step = function(), idle = function("idle", 2), inner = function("inner", 3);
  for (const auto &made : {step, idle, inner})
    ledger.created(made);
  EXPECT_THAT(ledger.rows(), SizeIs(0));
  ledger.on(traced(step, 1));
  ledger.on(traced(step, 2));
  step->hits += 96;
  step->eager += 1;
  inner->inlined += 2;
  ledger.on(FailEvent{step, {"train.py", 41}, "ValueError: no"});
  const auto rows = ledger.rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].function, "inner (train.py:12)");
  EXPECT_EQ(rows[0].inlined, 2u);
  EXPECT_EQ(rows[1].calls, 100u);
  EXPECT_EQ(rows[1].hits, 96u);
  EXPECT_EQ(rows[1].failures, 1u);
  EXPECT_EQ(rows[1].retraces, 1u);
  EXPECT_THAT(rows[1].account.records, SizeIs(2));
}

TEST(Ledger, StartsAnewAfterReset) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  for (int i = 1; i <= 20; ++i)
    ledger.on(traced(step, i));
  step->hits += 50;
  ledger.reset();
  EXPECT_FALSE(ledger.take_due(*step));
  EXPECT_THAT(ledger.rows(), SizeIs(0));
  step->hits += 3;
  for (int i = 21; i <= 25; ++i)
    ledger.on(traced(step, i));
  // The three hits make a bucket of their own, which counts as a trace, as in TensorFlow.
  EXPECT_EQ(counts(ledger.take_due(*step)), "5/7");
  EXPECT_EQ(counts(ledger.take_due(*step)), "6/8");
  const auto rows = ledger.rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].calls, 8u);
  EXPECT_EQ(rows[0].hits, 3u);
  EXPECT_EQ(rows[0].live, 25u);
}

TEST(Ledger, TellsTheLimitOfEvictions) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  for (int i = 0; i < 3; ++i)
    ledger.on(traced(step, i));
  for (int i = 0; i < 2; ++i) {
    ledger.on(EvictEvent{.function = step, .call = {}, .signature = "(lr=0)", .limit = 2});
    auto event = traced(step, i);
    event.was_evicted = true;
    ledger.on(event);
  }
  const auto first = ledger.take_due(*step), second = ledger.take_due(*step);
  ASSERT_TRUE(first && second);
  EXPECT_STREQ(name(first->kind), "eviction") << "once, at the first eviction";
  EXPECT_EQ(first->evicted, "(lr=0)");
  EXPECT_EQ(first->account.limit, 2u);
  EXPECT_THAT(first->account.records, SizeIs(3));
  EXPECT_STREQ(name(second->kind), "first");
  EXPECT_TRUE(second->account.records.back()->evicted);
  EXPECT_FALSE(ledger.take_due(*step));
}

TEST(Ledger, TakesEventsOfAFunctionThatItWasNotTold) {
  Ledger ledger;
  ledger.on(traced(function(), 1));
  EXPECT_THAT(ledger.rows(), SizeIs(1));
}

TEST(SiteLog, StaysBoundedOverManyEvents) {
  SiteLog log;
  const auto step = function();
  log.add(step);
  for (int i = 0; i < 100'000; ++i)
    log.on(traced(step, i));
  EXPECT_EQ(log.records(), SiteLog::most_records);
  EXPECT_EQ(log.functions(), 1u);
}

TEST(SiteLog, LetsGoOfFunctionsThatAreGone) {
  SiteLog log;
  for (int i = 0; i < 100'000; ++i) {
    const auto step = function();
    log.add(step);
    step->hits += 1;
    log.on(traced(step, 1));
    EXPECT_LE(log.functions(), 40u);
  }
  EXPECT_EQ(log.row()->traces, 100'000u);
  EXPECT_EQ(log.row()->hits, 100'000u);
  EXPECT_EQ(log.row()->live, 0u);
  EXPECT_TRUE(log.dead());
}

TEST(Ledger, ForgetsOldSitesThatAreDeadButNotTheirSums) {
  Ledger ledger;
  const auto kept = function("kept", 0);
  ledger.created(kept);
  ledger.on(traced(kept, 1));
  for (std::uint64_t site = 1; site <= 10'000; ++site) {
    const auto made = function("made", site);
    ledger.created(made);
    ledger.on(traced(made, 1));
  }
  const auto rows = ledger.rows();
  EXPECT_LE(rows.size(), 1024u + 1);
  std::uint64_t traces = 0;
  std::set<std::string> names;
  for (const Row &row : rows) {
    traces += row.traces;
    names.insert(row.function);
  }
  EXPECT_EQ(traces, 10'001u);
  EXPECT_TRUE(names.contains("kept (train.py:12)"));
  EXPECT_TRUE(names.contains("earlier Functions"));
}

TEST(Ledger, TakesEventsFromAllThreads) {
  Ledger ledger;
  std::atomic<int> warnings = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto step = function();
        ledger.created(step);
        step->hits += 1;
        ledger.on(traced(step, i));
        while (const auto due = ledger.take_due(*step))
          warnings += due->kind != Due::Kind::news;
        if (i % 100 == 0) {
          EXPECT_FALSE(ledger.rows().empty());
        }
      }
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_GE(warnings, 1);
  EXPECT_LE(warnings, 2);
  EXPECT_EQ(ledger.rows().front().traces, 2000u);
}

TEST(TheLedger, IsOneForTheProcess) { EXPECT_EQ(&ledger(), &ledger()); }

} // namespace
} // namespace tracehost::report
