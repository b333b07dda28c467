#include "report/history.h"

#include "report/ledger.h"

#include "support/counters.h"
#include "support/signatures.h"

#include <gmock/gmock.h>

namespace tracehost::report {
namespace {

using test::function;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TraceEvent traced(const std::shared_ptr<Counters> &function,
                  std::vector<Difference> differences = {}) {
  TraceEvent event;
  event.function = function;
  event.call = {"train.py", 40};
  event.first = differences.empty();
  event.differences = std::move(differences);
  event.signature = "(x: float32[8, 3])";
  event.nanoseconds = 1'500'000;
  event.ops = 4;
  return event;
}

std::vector<std::string> causes(std::vector<Difference> differences) {
  Ledger ledger;
  const auto step = function();
  ledger.on(traced(step));
  ledger.on(traced(step, std::move(differences)));
  return ledger.history().back().causes;
}

TEST(History, NamesAFileOfAPackageBelowTheInnermostPackages) {
  EXPECT_EQ(text(Site{"/home/me/net.py", 3}), "net.py:3");
  EXPECT_EQ(text(Site{"/venv/site-packages/a/utils.py", 3}), "a/utils.py:3");
  EXPECT_EQ(text(Site{"/dist-packages/a/site-packages/b/utils.py", 3}), "b/utils.py:3");
}

TEST(History, KeepsWhatHappenedInOrder) {
  Ledger ledger;
  const auto step = function();
  ledger.on(traced(step));
  ledger.on(FailEvent{step, {"train.py", 41}, "ValueError: no"});
  EvictEvent evicted;
  evicted.function = step;
  evicted.signature = "(n=1)";
  evicted.hits = 7;
  evicted.limit = 2;
  ledger.on(evicted);
  const auto entries = ledger.history();
  ASSERT_THAT(entries, SizeIs(3));
  EXPECT_STREQ(name(entries[0].kind), "trace");
  EXPECT_EQ(entries[0].name, "step");
  EXPECT_EQ(text(entries[0].definition), "train.py:12");
  EXPECT_EQ(text(entries[0].call), "train.py:40");
  EXPECT_EQ(entries[0].signature, "(x: float32[8, 3])");
  EXPECT_THAT(entries[0].causes, IsEmpty()) << "a first trace needs no cause";
  EXPECT_EQ(entries[0].nanoseconds, 1'500'000u);
  EXPECT_EQ(entries[0].ops, 4u);
  EXPECT_STREQ(name(entries[1].kind), "fail");
  EXPECT_EQ(entries[1].text, "ValueError: no");
  EXPECT_STREQ(name(entries[2].kind), "evict");
  EXPECT_EQ(entries[2].signature, "(n=1)");
  EXPECT_EQ(entries[2].hits, 7u);
}

TEST(History, SaysWhyInASentenceForEachCause) {
  EXPECT_THAT(causes({{Cause::shape, "x", 1, "12", "15", 2}}),
              ElementsAre("argument 'x', dimension 1, was 12, is 15"));
  EXPECT_THAT(
      causes({{Cause::shape, "x", 0, "32", "20", 2}, {Cause::shape, "y", 0, "32", "20", 1}}),
      ElementsAre("arguments 'x' and 'y', dimension 0, was 32, is 20"));
  EXPECT_THAT(
      causes({{Cause::dtype, "x", -1, "float32", "float64"}, {Cause::value, "n", -1, "1", "2"}}),
      ElementsAre("argument 'x', dtype, was float32, is float64", "argument 'n' was 1, is 2"));
  EXPECT_THAT(causes({{Cause::type, "n", -1, "int", "float"}}),
              ElementsAre("argument 'n', type, was int, is float"));
  EXPECT_THAT(causes({{Cause::object, "cfg", -1, "<Config object>", "<Config object>"}}),
              ElementsAre("argument 'cfg' is another object (<Config object>)"));
  EXPECT_THAT(causes({{Cause::value, "s", -1, "'aaa...'", "'aaa...'"}}),
              ElementsAre("argument 's' changed ('aaa...')"));
  EXPECT_THAT(causes({{Cause::context, "grad mode", -1, "on", "off"}}),
              ElementsAre("grad mode was on, is off"));
  EXPECT_THAT(causes({{Cause::guarded, "self.training", -1, "True", "False"}}),
              ElementsAre("'self.training', which the body reads, was True, is False"));
  EXPECT_THAT(causes({{Cause::read, "int(level)", -1, "1", "2", -1, "net.py:7"}}),
              ElementsAre("the value of 'int(level)' at net.py:7 was 1, is 2"));
  EXPECT_THAT(causes({{Cause::read, "", -1, "1", "2", -1, "net.py:7"}}),
              ElementsAre("a number at net.py:7 was 1, is 2"));
  EXPECT_THAT(causes({{Cause::capture, "self.w", -1, "float32[2]", "float32[3]"}}),
              ElementsAre("captured tensor 'self.w' was float32[2], is float32[3]"));
  EXPECT_THAT(
      causes({{Cause::condition, "net.py:7", -1, "x.shape[0] > 4", "x.shape[0] <= 4"}}),
      ElementsAre("sizes compare differently at net.py:7: was x.shape[0] > 4, is x.shape[0] <= 4"));
}

TEST(History, SaysWhyWhereNothingDiffered) {
  Ledger ledger;
  const auto step = function();
  ledger.on(traced(step));
  ledger.on(traced(function()));
  ledger.on(traced(step));
  auto again = traced(step);
  again.was_evicted = true;
  ledger.on(again);
  auto unnamed = traced(step);
  unnamed.first = false;
  ledger.on(unnamed);
  std::vector<std::string> said;
  for (const auto &entry : ledger.history())
    said.insert(said.end(), entry.causes.begin(), entry.causes.end());
  EXPECT_THAT(
      said,
      ElementsAre("tracehost.function was applied again to step (train.py:12), with an empty cache",
                  "the graphs before are gone, with the objects that they were traced with",
                  "a specialization that would have served had been evicted (limit=64)",
                  "an argument compared unequal and then equal again: see its __eq__"));
}

TEST(History, NotesWhatStaysExactAndWhatAny) {
  Ledger ledger;
  auto event = traced(function());
  Signature full = test::call({{"x", test::tensor(0, test::meta({8, 3}))}});
  full.slots[0].make_dynamic(0);
  event.full = &full;
  event.specialized = {{"x", 1, "int() of the size", {"/home/me/train.py", 13}}};
  event.notes = {"the graph could not be run at a second size"};
  event.counted = false;
  ledger.on(event);
  const auto entry = ledger.history().front();
  EXPECT_TRUE(entry.dynamic);
  EXPECT_TRUE(entry.requested);
  EXPECT_THAT(entry.notes,
              ElementsAre("dimension 1 of 'x' cannot be dynamic: int() of the size at train.py:13",
                          "the graph could not be run at a second size"));
}

TEST(History, TellsFunctionsApartAlsoOfOneDefinition) {
  Ledger ledger;
  const auto a = function(), b = function();
  ledger.on(traced(a));
  ledger.on(traced(b));
  ledger.on(traced(b, {{Cause::value, "n", -1, "1", "2"}}));
  EXPECT_THAT(ledger.history(a->number), SizeIs(1));
  EXPECT_THAT(ledger.history(b->number), SizeIs(2));
  EXPECT_THAT(ledger.history(), SizeIs(3));
}

TEST(History, HasTheWarningsThatWereNoted) {
  Ledger ledger;
  const auto step = function();
  for (int i = 0; i < 5; ++i)
    ledger.on(traced(step, {{Cause::value, "n", -1, std::to_string(i), std::to_string(i + 1)}}));
  EXPECT_THAT(ledger.history(), SizeIs(5));
  ledger.note_warning(*step, {"train.py", 40}, "5 out of the last 5 calls");
  const auto entry = ledger.history().back();
  EXPECT_STREQ(name(entry.kind), "warn");
  EXPECT_EQ(entry.text, "5 out of the last 5 calls");
  EXPECT_EQ(text(entry.call), "train.py:40");
}

TEST(History, StaysBoundedInEntriesAndInText) {
  Ledger ledger;
  const auto step = function();
  auto event = traced(step);
  event.signature = std::string(100'000, 'x');
  for (int i = 0; i < 3000; ++i)
    ledger.on(event);
  const auto entries = ledger.history();
  EXPECT_EQ(entries.size(), History::most_entries);
  EXPECT_EQ(entries.back().signature.size(), most_text);
  EXPECT_THAT(entries.back().signature, testing::EndsWith("xx..."));
  ledger.reset();
  EXPECT_THAT(ledger.history(), IsEmpty());
}

} // namespace
} // namespace tracehost::report
