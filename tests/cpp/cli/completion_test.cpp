// Completion scripts hold the whole table; tests/python/cli/test_completion.py loads them in the
// shells.
#include "cli/completion.h"

#include <gmock/gmock.h>

namespace tracehost::cli {
namespace {

using testing::HasSubstr;

TEST(Completion, EveryOptionAndCommandIsInEveryScript) {
  for (const auto &command : commands()) {
    EXPECT_THAT(zsh_completion(), HasSubstr("'" + std::string(command.name) + ":"));
    EXPECT_THAT(fish_completion(), HasSubstr(" -a " + std::string(command.name) + " -d "));
  }
  for (const auto &option : options()) {
    const std::string name(option.name);
    EXPECT_THAT(bash_completion(), HasSubstr("--" + name));
    EXPECT_THAT(zsh_completion(), HasSubstr("--" + name));
    EXPECT_THAT(fish_completion(), HasSubstr(" -l " + name));
  }
}

TEST(Completion, OptionsOfPythonEndWhereItsProgramBegins) {
  EXPECT_THAT(bash_completion(), HasSubstr("=~ ^-[bBdEhiIOPqsSuvVx]*[cm]"));
  EXPECT_THAT(fish_completion(), HasSubstr("^-[bBdEhiIOPqsSuvVx]*[cm]"));
}

TEST(Completion, SummariesBecomeOneLine) {
  EXPECT_EQ(one_line("a [b]\nc: 'd'", "[]:"), "a \\[b\\] c\\: 'd'");
}

TEST(Table, WordsOfAChoice) {
  EXPECT_THAT(choices("off|on"), testing::ElementsAre("off", "on"));
  EXPECT_THAT(choices("one"), testing::ElementsAre("one"));
  EXPECT_THAT(choices(""), testing::IsEmpty());
}

TEST(Table, ValuesHaveAKindAndChoicesAtLeastTwoWords) {
  for (const auto &option : options()) {
    EXPECT_EQ(option.takes == Takes::nothing, option.kind == Kind::none) << option.name;
    EXPECT_EQ(option.takes == Takes::nothing, option.placeholder.empty()) << option.name;
    if (option.kind == Kind::choice) {
      EXPECT_GE(choices(option.placeholder).size(), 2) << option.name;
    }
  }
}

} // namespace
} // namespace tracehost::cli
