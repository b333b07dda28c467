#include "report/event_stream.h"

#include <gtest/gtest.h>

#include <string>

namespace tracehost::report {
namespace {

HistoryEntry entry(HistoryEntry::Kind kind) {
  HistoryEntry made;
  made.kind = kind;
  made.time = 12.5;
  made.name = "step";
  made.definition = {"/src/train.py", 12};
  made.call = {"/src/train.py", 40};
  return made;
}

/// From the event's name on: the process is another one each time.
std::string line(const HistoryEntry &entry) {
  const std::string all = line_of(entry);
  return all.substr(all.find("\"event\""));
}

constexpr const char *kDefinition =
    R"J("function":"step","site":0,"definition":{"file":"/src/train.py","line":12,"text":"train.py:12"})J";
constexpr const char *kCall = R"J("call":{"file":"/src/train.py","line":40,"text":"train.py:40"})J";

TEST(EventStream, WritesATrace) {
  HistoryEntry trace = entry(HistoryEntry::Kind::trace);
  trace.signature = "(x: float32[2])";
  trace.causes = {"'x' was 1, is 2"};
  trace.nanoseconds = 1'500'000;
  trace.ops = 3;
  trace.requested = true;
  EXPECT_EQ(line(trace), std::string(R"J("event":"trace",)J") + kDefinition + "," + kCall +
                             R"J(,"signature":"(x: float32[2])","causes":["'x' was 1, is 2"],)J" +
                             R"J("notes":[],"ms":1.5,"ops":3,"dynamic":false,"requested":true})J");
  EXPECT_TRUE(line_of(trace).starts_with(R"J({"version":1,"time":12.5,"pid":)J"));
}

TEST(EventStream, WritesWhatAKindHas) {
  HistoryEntry evict = entry(HistoryEntry::Kind::evict);
  evict.hits = 4;
  EXPECT_EQ(line(evict),
            std::string(R"J("event":"evict",)J") + kDefinition + "," + kCall + R"J(,"hits":4})J");
  HistoryEntry tape = entry(HistoryEntry::Kind::tape);
  tape.ops = 7;
  tape.bytes = 64;
  tape.text = "a tape";
  EXPECT_EQ(line(tape), std::string(R"J("event":"tape",)J") + kDefinition +
                            R"J(,"text":"a tape","ops":7,"bytes":64})J");
}

TEST(EventStream, WritesACallFromNowhere) {
  HistoryEntry fail = entry(HistoryEntry::Kind::fail);
  fail.call = {};
  fail.text = "ValueError: \"no\"\nreally";
  EXPECT_EQ(line(fail), std::string(R"J("event":"fail",)J") + kDefinition +
                            R"J(,"call":null,"text":"ValueError: \"no\"\nreally"})J");
}

TEST(EventStream, ReplacesWhatIsNoUtf8) {
  HistoryEntry fail = entry(HistoryEntry::Kind::fail);
  fail.text = "a\xff";
  EXPECT_NE(line_of(fail).find("\"text\":\"a\xef\xbf\xbd\""), std::string::npos);
}

} // namespace
} // namespace tracehost::report
