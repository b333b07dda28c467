// Environment variables of options: what they may say, what is said of mistakes, and who wins.
#include "cli/settings.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

namespace tracehost::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Texts = std::vector<std::string>;

class VariablesTest : public testing::Test {
protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const auto &command : commands())
      for (const auto &option : options())
        ::unsetenv(variable(option, command.command).c_str());
    ::unsetenv("TRACEHOST_REPORT_PID");
  }
  static Settings settings(const Texts &args) {
    auto result = parse(split(args, [](const std::string &) { return true; }));
    complete(result);
    return result;
  }
  static std::string shown(const Given &given) {
    std::string values;
    for (const auto &value : given.values)
      values += (values.empty() ? "" : ",") + value;
    return full_name(*given.option, given.command) + "=" + values + " " + given.origin;
  }
  // `name=value origin` of all that is set
  static Texts set(const Texts &args) {
    Texts result;
    for (const auto &given : settings(args).given)
      result.push_back(shown(given));
    return result;
  }
};

TEST_F(VariablesTest, NothingIsSetWithoutThem) {
  EXPECT_THAT(set({"notebook", "a.ipynb"}), IsEmpty());
}

TEST_F(VariablesTest, EveryOptionHasOne) {
  for (const auto &command : commands())
    for (const auto &option : options()) {
      if (!applies(option, command.command) || !is_setting(option))
        continue;
      std::string value = option.takes == Takes::nothing ? "true" : "7";
      if (option.kind == Kind::choice)
        value = choices(option.placeholder).back();
      const auto name = variable(option, command.command);
      ::setenv(name.c_str(), value.c_str(), 1);
      EXPECT_THAT(set({std::string(command.name)}),
                  ElementsAre(full_name(option, command.command) + "=" + value + " " + name));
      clear();
    }
}

TEST_F(VariablesTest, AnOptionWins) {
  ::setenv("TRACEHOST_NOTEBOOK_JOBS", "3", 1);
  ::setenv("TRACEHOST_NOTEBOOK_TIMEOUT", "3", 1);
  EXPECT_THAT(
      set({"notebook", "-j4", "a.ipynb"}),
      ElementsAre("notebook.jobs=4 --jobs", "notebook.timeout=3 TRACEHOST_NOTEBOOK_TIMEOUT"));
}

TEST_F(VariablesTest, AnOptionWinsOverTheVariableOfOneThatItExcludes) {
  ::setenv("TRACEHOST_NOTEBOOK_OUTPUT", "o", 1);
  ::setenv("TRACEHOST_REPL_PLAIN", "1", 1);
  EXPECT_THAT(words_for_python(settings({"notebook", "--inplace", "a.ipynb"})),
              ElementsAre("--inplace"));
  EXPECT_THAT(words_for_python(settings({"repl", "--ipython"})), ElementsAre("--ipython"));
  EXPECT_THAT(words_for_python(settings({"repl", "--ipython=false"})), ElementsAre("--plain"));
  EXPECT_THAT(words_for_python(settings({"repl", "--plain=false"})), IsEmpty());
  EXPECT_THAT(words_for_python(settings({"notebook", "--inplace", "-o", "x", "a.ipynb"})),
              ElementsAre("--inplace", "--output=x"))
      << "the command says that these exclude each other";
}

TEST_F(VariablesTest, FlagsAreSwitchedOff) {
  ::setenv("TRACEHOST_NOTEBOOK_ALLOW_ERRORS", "1", 1);
  ::setenv("TRACEHOST_NOTEBOOK_HTML", "-", 1);
  EXPECT_THAT(words_for_python(settings({"notebook"})), ElementsAre("--html=-", "--allow-errors"));
  EXPECT_THAT(words_for_python(settings({"notebook", "--allow-errors=false"})),
              ElementsAre("--html=-"));
  ::setenv("TRACEHOST_NOTEBOOK_ALLOW_ERRORS", "0", 1);
  EXPECT_THAT(words_for_python(settings({"notebook"})), ElementsAre("--html=-"));
}

TEST_F(VariablesTest, AnOptionThatMayBeRepeatedHasAValueOnEachLine) {
  ::setenv("TRACEHOST_NOTEBOOK_PARAM", "c=3\nd=x y", 1);
  EXPECT_THAT(words_for_python(settings({"notebook", "--skip-tag=a", "--skip-tag=b"})),
              ElementsAre("--skip-tag=a", "--skip-tag=b", "--param=c=3", "--param=d=x y"));
}

TEST_F(VariablesTest, OneThatIsWrong) {
  ::setenv("TRACEHOST_NOTEBOOK_TIMEOUT", "soon", 1);
  try {
    settings({"notebook"});
    FAIL() << "accepted";
  } catch (const UsageError &error) {
    EXPECT_STREQ(error.what(),
                 "TRACEHOST_NOTEBOOK_TIMEOUT takes a non-negative number, got 'soon'");
  }
  EXPECT_NO_THROW(settings({"s.py"})) << "it is another command's";
}

TEST_F(VariablesTest, AllThatIsSetIsShownWhoeverItIsFor) {
  ::setenv("TRACEHOST_EXPORT_NAME", "f", 1);
  ::setenv("TRACEHOST_NOTEBOOK_JOBS", "2", 1);
  ::setenv("TRACEHOST_REPORT", "-", 1);
  Texts all;
  for (const auto &given : all_settings(settings({"doctor", "--python=v"})))
    all.push_back(shown(given));
  EXPECT_THAT(all, testing::UnorderedElementsAre(
                       "python=v --python", "export.name=f TRACEHOST_EXPORT_NAME",
                       "notebook.jobs=2 TRACEHOST_NOTEBOOK_JOBS", "report=- TRACEHOST_REPORT"));
}

} // namespace
} // namespace tracehost::cli
