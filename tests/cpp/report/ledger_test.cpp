#include "report/ledger.h"

#include "report/site_log.h"

#include "support/counters.h"

#include <gmock/gmock.h>

#include <thread>

namespace tracehost::report {
namespace {

using test::function;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

TEST(Ledger, WarnsOnceForTheTraceThatIsDue) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  for (int i = 1; i <= 4; ++i) {
    ledger.on(traced(step, i));
    EXPECT_FALSE(ledger.take_warning(*step));
  }
  ledger.on(traced(step, 5));
  const auto warning = ledger.take_warning(*step);
  ASSERT_TRUE(warning);
  EXPECT_EQ(warning->text,
            R"(5 out of the last 5 calls to step (train.py:12) triggered retracing: 5.0 ms so far.
  why   argument 'lr' took 5 values (1, 2, 3, 4, 5), from train.py:40
  fix   pass torch.tensor(5) for 'lr' (or read it from a tensor): a tensor's value is not part of the signature (not for a size or a count)   would save 4 of 5 traces)");
  EXPECT_EQ(warning->call, (Site{"train.py", 40}));
  EXPECT_FALSE(ledger.take_warning(*step));
  EXPECT_FALSE(ledger.take_warning(*function("other", 2)));
}

TEST(Ledger, FoldsInTheHitsBeforeItCountsTheTrace) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  ledger.on(traced(step, 1));
  step->hits += 22;
  for (int i = 2; i <= 5; ++i)
    ledger.on(traced(step, i));
  EXPECT_THAT(ledger.take_warning(*step)->text, StartsWith("5 out of the last 27 calls to step"));
}

TEST(Ledger, IsSilentWhereEveryFourthCallTraces) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  for (int i = 1; i <= 100; ++i) {
    ledger.on(traced(step, i));
    EXPECT_FALSE(ledger.take_warning(*step));
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
  EXPECT_FALSE(ledger.take_warning(*step));
  ledger.on(traced(step, 5));
  EXPECT_THAT(ledger.take_warning(*step)->text, StartsWith("5 out of the last 5 calls"));
}

TEST(Ledger, CountsTheFunctionsOfADefinitionSiteTogetherAlsoThoseGone) {
  Ledger ledger;
  for (int i = 1; i <= 5; ++i) {
    const auto step = function();
    ledger.created(step);
    ledger.on(traced(step, 1));
    step->hits += 1;
  }
  const auto warning = ledger.take_warning(*function());
  ASSERT_TRUE(warning);
  EXPECT_THAT(warning->text, StartsWith("5 out of the last 9 calls"));
  EXPECT_THAT(warning->text, HasSubstr("tracehost.function was applied again 4 times to step"));
  EXPECT_THAT(warning->text, HasSubstr("would save 4 of 5 traces"));
  EXPECT_EQ(ledger.table(), 1 + R"(
function            calls  hits  traces  inlined  live  hit rate  trace ms  main cause
step (train.py:12)     10     5       5        0     0    50.0 %       5.0  decorated again
total                  10     5       5        0     0    50.0 %       5.0
)");
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
  EXPECT_FALSE(ledger.take_warning(*a));
  ledger.on(traced(b, 5));
  EXPECT_FALSE(ledger.take_warning(*a));
  EXPECT_TRUE(ledger.take_warning(*b));
}

TEST(Ledger, ShowsEachDefinitionInTheTable) {
  Ledger ledger;
  EXPECT_EQ(ledger.table(), "tracehost: no Function was called.\n");
  const auto step = function(), idle = function("idle", 2), inner = function("inner", 3);
  for (const auto &made : {step, idle, inner})
    ledger.created(made);
  EXPECT_EQ(ledger.table(), "tracehost: no Function was called.\n");
  ledger.on(traced(step, 1));
  ledger.on(traced(step, 2));
  step->hits += 96;
  step->eager += 1;
  inner->inlined += 2;
  ledger.on(FailEvent{step, {"train.py", 41}, "ValueError: no"});
  EXPECT_EQ(ledger.table(), 1 + R"(
function             calls  hits  traces  inlined  live  hit rate  trace ms  main cause
step (train.py:12)     100    96       2        0     2    96.0 %       2.0  'lr' value
inner (train.py:12)      0     0       0        2     0         -       0.0
total                  100    96       2        2     2    96.0 %       2.0
)");
}

TEST(Ledger, StartsAnewAfterReset) {
  Ledger ledger;
  const auto step = function();
  ledger.created(step);
  for (int i = 1; i <= 20; ++i)
    ledger.on(traced(step, i));
  step->hits += 50;
  ledger.reset();
  EXPECT_FALSE(ledger.take_warning(*step));
  EXPECT_EQ(ledger.table(), "tracehost: no Function was called.\n");
  step->hits += 3;
  for (int i = 21; i <= 25; ++i)
    ledger.on(traced(step, i));
  // The three hits make a bucket of their own, which counts as a trace, as in TensorFlow.
  EXPECT_THAT(ledger.take_warning(*step)->text, StartsWith("5 out of the last 7 calls"));
  EXPECT_THAT(ledger.take_warning(*step)->text, StartsWith("6 out of the last 8 calls"));
  EXPECT_THAT(ledger.table(), HasSubstr("step (train.py:12)      8     3       5        0    25"));
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
  const auto first = ledger.take_warning(*step), second = ledger.take_warning(*step);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(
      first->text,
      R"(step (train.py:12) has had more signatures than limit=2 keeps, 3.0 ms of traces so far: (lr=0) was evicted.
  why   argument 'lr' took 3 values (0, 1, 2), from train.py:40
  fix   pass torch.tensor(2) for 'lr' (or read it from a tensor): a tensor's value is not part of the signature (not for a size or a count)   would save 2 of 3 traces
  see   @tracehost.function(limit=4), if all of them are called again)")
      << "once, at the first eviction";
  EXPECT_THAT(second->text, HasSubstr("had been evicted 2 times (limit=2), from"));
  EXPECT_FALSE(ledger.take_warning(*step));
}

TEST(Ledger, TakesEventsOfAFunctionThatItWasNotTold) {
  Ledger ledger;
  ledger.on(traced(function(), 1));
  EXPECT_THAT(ledger.table(), HasSubstr("step (train.py:12)"));
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
  const std::string table = ledger.table();
  EXPECT_LE(std::count(table.begin(), table.end(), '\n'), 1024 + 3);
  EXPECT_NE(table.find("kept (train.py:12)"), std::string::npos);
  EXPECT_NE(table.find("earlier Functions"), std::string::npos);
  EXPECT_NE(table.find("\ntotal               10001     0   10001"), std::string::npos);
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
        warnings += ledger.take_warning(*step).has_value();
        if (i % 100 == 0) {
          EXPECT_FALSE(ledger.table().empty());
        }
      }
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_GE(warnings, 1);
  EXPECT_LE(warnings, 2);
  EXPECT_THAT(ledger.table(), HasSubstr("2000"));
}

TEST(TheLedger, IsOneForTheProcess) { EXPECT_EQ(&ledger(), &ledger()); }

} // namespace
} // namespace tracehost::report
