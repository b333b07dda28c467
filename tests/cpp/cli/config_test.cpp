// Configuration files: what they may say, what is told of mistakes, and who wins.
#include "cli/settings.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tracehost::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using Texts = std::vector<std::string>;

// A folder to be in, with a user's configuration beside it.
class ConfigTest : public testing::Test {
protected:
  void SetUp() override {
    const auto name = testing::UnitTest::GetInstance()->current_test_info()->name();
    root = fs::canonical(testing::TempDir()) / ("config-" + std::to_string(::getpid())) / name;
    fs::create_directories(root / "here");
    fs::create_directories(root / "user" / "tracehost");
    before = fs::current_path();
    fs::current_path(root / "here");
    clear();
    ::setenv("XDG_CONFIG_HOME", (root / "user").c_str(), 1);
  }
  void TearDown() override {
    fs::current_path(before);
    fs::remove_all(root);
    clear();
    ::unsetenv("XDG_CONFIG_HOME");
  }
  static void clear() {
    for (const auto &command : commands())
      for (const auto &option : options())
        ::unsetenv(variable(option, command.command).c_str());
    ::unsetenv("TRACEHOST_REPORT_PID");
  }

  static void write(const fs::path &path, const std::string &text) { std::ofstream(path) << text; }

  static Settings settings(const Texts &args) {
    auto result = parse(split(args, [](const std::string &) { return true; }));
    configuration() = complete(result);
    return result;
  }
  static Configuration &configuration() {
    static Configuration last;
    return last;
  }
  // `name = value (origin)` of all that is set
  static Texts set(const Texts &args) {
    Texts result;
    const auto found = settings(args);
    for (const auto &given : found.given) {
      std::string values;
      for (const auto &value : given.values)
        values += (values.empty() ? "" : ",") + value;
      result.push_back(std::string(given.option->name) + "=" + values + " " + given.origin);
    }
    return result;
  }
  static Texts problems(const std::string &text) {
    write("tracehost.toml", text);
    settings({"s.py"});
    Texts result;
    for (const auto &problem : configuration().problems)
      result.push_back((problem.fatal ? "error " : "warning ") + problem.text);
    return result;
  }

  fs::path root, before;
};

TEST_F(ConfigTest, NothingIsSetWhereNoFileIs) {
  EXPECT_THAT(set({"notebook", "a.ipynb"}), IsEmpty());
  EXPECT_THAT(configuration().files, IsEmpty());
}

TEST_F(ConfigTest, EveryOptionHasAVariableAndAKey) {
  for (const auto &command : commands())
    for (const auto &option : options()) {
      if (!applies(option, command.command) || !has_key(option))
        continue;
      const bool flag = option.takes == Takes::nothing;
      std::string value = flag ? "true" : "7";
      if (option.kind == Kind::choice)
        value = choices(option.placeholder).back();
      const auto name = key(option, command.command);
      const bool quoted = option.kind != Kind::whole && option.kind != Kind::number && !flag;
      const auto in_file = quoted ? "\"" + value + "\"" : value;
      const bool path =
          option.kind == Kind::file || option.kind == Kind::output || option.kind == Kind::folder;
      const auto absolute = path ? (root / "here" / value).string() : value;

      ::setenv(variable(option, command.command).c_str(), value.c_str(), 1);
      EXPECT_THAT(set({std::string(command.name)}),
                  ElementsAre(std::string(option.name) + "=" + value + " " +
                              variable(option, command.command)));
      clear();
      write("tracehost.toml", name + " = " + in_file + "\n");
      EXPECT_THAT(set({std::string(command.name)}),
                  ElementsAre(std::string(option.name) + "=" + absolute + " ./tracehost.toml:1"));
      EXPECT_THAT(configuration().problems, IsEmpty());
      fs::remove("tracehost.toml");
    }
}

TEST_F(ConfigTest, TheStrongestSourceWins) {
  write(root / "user/tracehost/config.toml", "[notebook]\njobs = 1\ntimeout = 1\nsave-every = 1\n"
                                             "start-timeout = 1\n");
  const auto user = (root / "user/tracehost/config.toml").string();
  write("tracehost.toml", "[notebook]\njobs = 2\ntimeout = 2\nsave-every = 2\n");
  ::setenv("TRACEHOST_NOTEBOOK_JOBS", "3", 1);
  ::setenv("TRACEHOST_NOTEBOOK_TIMEOUT", "3", 1);
  EXPECT_THAT(set({"notebook", "-j4", "a.ipynb"}),
              ElementsAre("jobs=4 --jobs", "timeout=3 TRACEHOST_NOTEBOOK_TIMEOUT",
                          "save-every=2 ./tracehost.toml:4", "start-timeout=1 " + user + ":5"));
}

TEST_F(ConfigTest, WhatExcludesAnotherWinsOverWeakerSources) {
  write("tracehost.toml", "[notebook]\noutput = \"o\"\n[repl]\nplain = true\n");
  EXPECT_THAT(words_for_python(settings({"notebook", "--inplace", "a.ipynb"})),
              ElementsAre("--inplace"));
  EXPECT_THAT(words_for_python(settings({"repl", "--ipython"})), ElementsAre("--ipython"));
  EXPECT_THAT(words_for_python(settings({"repl", "--ipython=false"})), ElementsAre("--plain"));
  EXPECT_THAT(words_for_python(settings({"repl", "--plain=false"})), IsEmpty());
  EXPECT_THAT(words_for_python(settings({"notebook", "--inplace", "-o", "x", "a.ipynb"})),
              ElementsAre("--inplace", "--output=x"))
      << "the command tells that these exclude each other";
}

TEST_F(ConfigTest, FlagsAreSwitchedOffByStrongerSources) {
  write("tracehost.toml", "[notebook]\nallow-errors = true\nhtml = true\n");
  EXPECT_THAT(words_for_python(settings({"notebook"})), ElementsAre("--allow-errors", "--html=-"));
  EXPECT_THAT(words_for_python(settings({"notebook", "--allow-errors=false"})),
              ElementsAre("--html=-"));
  ::setenv("TRACEHOST_NOTEBOOK_ALLOW_ERRORS", "0", 1);
  EXPECT_THAT(words_for_python(settings({"notebook"})), ElementsAre("--html=-"));
  write(root / "user/tracehost/config.toml", "report = true");
  write("tracehost.toml", "report = false");
  EXPECT_EQ(settings({"s.py"}).text("report"), "");
  fs::remove("tracehost.toml");
  EXPECT_EQ(settings({"s.py"}).text("report"), "-");
}

TEST_F(ConfigTest, ValuesOfEachKind) {
  write("tracehost.toml", "[notebook]\nparam = [\"a=1\", \"b=2\"]\nskip-tag = \"slow\"\n"
                          "timeout = 1.5\nparam-file = [\"p/q.json\", \"-\", \"/r.json\"]\n");
  EXPECT_THAT(words_for_python(settings({"notebook"})),
              ElementsAre("--param=a=1", "--param=b=2",
                          "--param-file=" + (root / "here/p/q.json").string(), "--param-file=-",
                          "--param-file=/r.json", "--skip-tag=slow", "--timeout=1.5"));
  ::setenv("TRACEHOST_NOTEBOOK_PARAM", "c=3\nd=x y", 1);
  EXPECT_THAT(
      words_for_python(settings({"notebook", "--skip-tag=a", "--skip-tag=b"})),
      testing::IsSupersetOf({"--param=c=3", "--param=d=x y", "--skip-tag=a", "--skip-tag=b"}));
}

TEST_F(ConfigTest, PathsAreThoseFromTheFile) {
  write(root / "user/tracehost/config.toml", "python = \"venv\"\n");
  EXPECT_EQ(settings({"s.py"}).text("python"), (root / "user/tracehost/venv").string());
  const std::string home = std::getenv("HOME") == nullptr ? "/" : std::getenv("HOME");
  ::setenv("HOME", "/home/somebody", 1);
  write("tracehost.toml", "python = \"~/venv\"\n");
  EXPECT_EQ(settings({"s.py"}).text("python"), "/home/somebody/venv");
  ::setenv("HOME", home.c_str(), 1);
}

TEST_F(ConfigTest, ATableOfPyprojectWhereThereIsNoFileOfItsOwn) {
  write("pyproject.toml", "[project]\nname = \"x\"\n[tool.tracehost]\nreport = true\n"
                          "[tool.tracehost.notebook]\njobs = 2\n");
  EXPECT_THAT(set({"s.py"}), ElementsAre("report=- ./pyproject.toml:4"));
  EXPECT_THAT(set({"notebook"}), ElementsAre("jobs=2 ./pyproject.toml:6"));
  write("tracehost.toml", "");
  EXPECT_THAT(set({"s.py"}), IsEmpty());
}

TEST_F(ConfigTest, APyprojectOfOthersIsNotParsed) {
  write("pyproject.toml", "this is [no toml");
  EXPECT_THAT(set({"s.py"}), IsEmpty());
  EXPECT_THAT(configuration().problems, IsEmpty());
}

TEST_F(ConfigTest, OneFileOrNone) {
  write("tracehost.toml", "report = \"a\"\n");
  write("other.toml", "[notebook]\njobs = 2\n");
  EXPECT_THAT(set({"--config", "other.toml", "s.py"}), ElementsAre("config=other.toml --config"));
  EXPECT_THAT(set({"--no-config", "s.py"}), ElementsAre("no-config=true --no-config"));
  ::setenv("TRACEHOST_NO_CONFIG", "1", 1);
  EXPECT_THAT(set({"s.py"}), ElementsAre("no-config=true TRACEHOST_NO_CONFIG"));
  EXPECT_THAT(set({"notebook", "--config=other.toml"}),
              ElementsAre("config=other.toml --config", "jobs=2 other.toml:2"));
  EXPECT_THROW(settings({"--config=missing.toml", "s.py"}), UsageError);
}

TEST_F(ConfigTest, MistakesAreToldWithTheirLine) {
  EXPECT_THAT(
      problems("\nreprot = \"x\"\n"),
      ElementsAre("warning ./tracehost.toml:2: unknown key 'reprot'; did you mean 'report'?"));
  EXPECT_THAT(problems("[notebook]\ntimout = 3\n"),
              ElementsAre("warning ./tracehost.toml:2: unknown key 'notebook.timout'; did you mean "
                          "'notebook.timeout'?"));
  EXPECT_THAT(
      problems("[notbook]\ntimeout = 3\n"),
      ElementsAre("warning ./tracehost.toml:1: unknown key 'notbook'; did you mean 'notebook'?"));
  EXPECT_THAT(problems("[quite]\ndifferent = 3\n"),
              ElementsAre("warning ./tracehost.toml:1: unknown key 'quite'"));
  EXPECT_THAT(problems("config = \"x\"\nhelp = true\n"),
              ElementsAre("warning ./tracehost.toml:1: unknown key 'config'",
                          "warning ./tracehost.toml:2: unknown key 'help'"));
  EXPECT_THAT(
      problems("[notebook]\ntimeout = \"60\"\n"),
      ElementsAre("error ./tracehost.toml:2: notebook.timeout takes a number from 0 on, got '60'"));
  EXPECT_THAT(
      problems("[notebook]\njobs = -1\n"),
      ElementsAre(
          "error ./tracehost.toml:2: notebook.jobs takes a whole number from 0 on, got '-1'"));
  EXPECT_THAT(
      problems("[notebook]\nengine = \"x\"\n"),
      ElementsAre("error ./tracehost.toml:2: notebook.engine takes kernel or inprocess, got 'x'"));
  EXPECT_THAT(
      problems("[notebook]\ninplace = \"yes\"\nparam = [\"a=1\", []]\n"),
      ElementsAre("error ./tracehost.toml:2: notebook.inplace takes true or false, got 'yes'",
                  "error ./tracehost.toml:3: notebook.param takes a text, got a list"));
  EXPECT_THAT(problems("report = \n"),
              ElementsAre(testing::StartsWith("error ./tracehost.toml:1: ")));
}

TEST_F(ConfigTest, AFileThatCannotBeReadIsAWarning) {
  fs::create_directory("tracehost.toml");
  EXPECT_THAT(set({"s.py"}), IsEmpty());
  ASSERT_THAT(configuration().problems, testing::SizeIs(1));
  EXPECT_EQ(configuration().problems[0].text, "cannot read ./tracehost.toml: Is a directory");
  EXPECT_FALSE(configuration().problems[0].fatal);
}

TEST_F(ConfigTest, AVariableThatIsWrong) {
  ::setenv("TRACEHOST_NOTEBOOK_TIMEOUT", "soon", 1);
  try {
    settings({"notebook"});
    FAIL() << "accepted";
  } catch (const UsageError &error) {
    EXPECT_STREQ(error.what(), "TRACEHOST_NOTEBOOK_TIMEOUT takes a number from 0 on, got 'soon'");
  }
  EXPECT_NO_THROW(settings({"s.py"})) << "it is another command's";
}

TEST_F(ConfigTest, AFileThatSomebodyElsePutInAFolderOfAllIsNotRead) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can make a file of another user";
  write("tracehost.toml", "report = true\n");
  ASSERT_EQ(::chown("tracehost.toml", 12345, 12345), 0);
  EXPECT_EQ(settings({"s.py"}).text("report"), "-");
  fs::permissions(".", fs::perms::all);
  EXPECT_THAT(set({"s.py"}), IsEmpty());
  ASSERT_THAT(configuration().problems, testing::SizeIs(1));
  EXPECT_EQ(configuration().problems[0].text,
            "./tracehost.toml belongs to another user, and is not read (--config ./tracehost.toml "
            "reads it)");
  EXPECT_EQ(settings({"--config", "./tracehost.toml", "s.py"}).text("report"), "-");
}

TEST_F(ConfigTest, AllThatIsSetIsShownWhoeverItIsFor) {
  write("tracehost.toml", "report = true\n[notebook]\njobs = 2\n");
  ::setenv("TRACEHOST_EXPORT_NAME", "f", 1);
  auto doctor = parse(split({"doctor", "--python=v"}, [](const std::string &) { return true; }));
  const auto files = complete(doctor);
  Texts shown;
  for (const auto &given : all_settings(doctor, files))
    shown.push_back(key(*given.option, given.command) + " " + given.origin);
  EXPECT_THAT(shown, ElementsAre("python --python", "export.name TRACEHOST_EXPORT_NAME",
                                 "notebook.jobs ./tracehost.toml:3", "report ./tracehost.toml:1"));
}

} // namespace
} // namespace tracehost::cli
