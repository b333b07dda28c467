#include "observe/fate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <string>

namespace tracehost::python {
namespace {

const char *text(Fate fate) {
  switch (fate) {
  case Fate::guarded:
    return "guarded";
  case Fate::repeated:
    return "repeated";
  case Fate::once:
    return "serves once";
  case Fate::warned:
    return "warned";
  case Fate::given_up:
    return "given up";
  case Fate::change:
    return "a change";
  }
  return "";
}

template <class Rows> std::string printed(const Rows &rows) {
  std::string result = "\n";
  for (const auto &row : rows)
    result += fmt::format("{:<52}{}\n", row.facts, text(row.fate));
  return result;
}

/// The rows that decide for some facts, of all that there are. Facts are bools alone.
template <class Facts, class Rows> std::set<std::size_t> deciding(const Rows &rows) {
  std::set<std::size_t> found;
  for (unsigned bits = 0; bits < 1U << sizeof(Facts); ++bits) {
    bool values[sizeof(Facts)];
    for (std::size_t i = 0; i < sizeof(Facts); ++i)
      values[i] = (bits >> i & 1U) != 0;
    Facts facts;
    std::memcpy(&facts, values, sizeof(Facts));
    found.insert(static_cast<std::size_t>(fate_of(rows, facts) - rows.data()));
  }
  return found;
}

TEST(Fate, OfARebind) {
  EXPECT_EQ(printed(kRebound), R"(
a value that no guard can compare                   a change
no tensor, and no run can make it                   a change
code that the graph calls uses it; it is as before  a change
code that the graph calls uses it                   serves once
appended to a list that the body has read           serves once
no run can make it, or no guard can compare it      serves once
an entry with a number that calls give has moved    serves once
else                                                repeated
)");
}

TEST(Fate, OfAChange) {
  EXPECT_EQ(printed(kChanges), R"(
as before                                           guarded
an init_scope has made it                           serves once
a library's, on the path of a capture               guarded
a library's                                         given up
what the body asked of an object                    serves once
nobody was seen to store it                         serves once
the body has read and stored it                     serves once
the body stores a tensor                            serves once
in a side of an `if`                                serves once
on the path of a capture                            guarded
code that the graph calls stores it                 given up
else                                                warned
)");
}

TEST(Fate, EachRowDecidesForSomeFacts) {
  EXPECT_EQ(deciding<ReboundFacts>(kRebound).size(), kRebound.size());
  EXPECT_EQ(deciding<ChangeFacts>(kChanges).size(), kChanges.size());
}

TEST(Fate, OnlyATraceThatServesOnceSaysWhy) {
  for (const auto &row : kRebound)
    EXPECT_EQ(row.why != nullptr, row.fate == Fate::once) << row.facts;
  for (const auto &row : kChanges)
    EXPECT_EQ(row.why != nullptr, row.fate == Fate::once) << row.facts;
}

/// A change behind the rows of kRebound is one that kChanges knows what to do with.
TEST(Fate, OfAChangeIsNeverAChange) {
  for (const auto &row : kChanges)
    EXPECT_TRUE(row.fate != Fate::change && row.fate != Fate::repeated) << row.facts;
}

} // namespace
} // namespace tracehost::python
