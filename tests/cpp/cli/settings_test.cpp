// Options of a run, their environment twins, and the message for a mistyped one.
#include "cli/settings.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tracehost::cli {
namespace {

using testing::HasSubstr;

Settings parsed(const std::vector<std::string> &args) {
  return parse(split(args, [](const std::string &) { return true; }));
}

void finish(Settings &settings) {
  complete(settings);
  apply(settings);
}

std::string complaint(const std::vector<std::string> &args) {
  try {
    parsed(args);
  } catch (const UsageError &error) {
    return error.what();
  }
  return "none";
}

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value == nullptr ? "(unset)" : value;
}

class SettingsTest : public testing::Test {
protected:
  void SetUp() override {
    clear();
    std::filesystem::create_directory(folder);
  }
  void TearDown() override {
    clear();
    std::filesystem::remove_all(folder);
  }
  static void clear() {
    for (const char *name : {"TRACEHOST_REPORT", "TRACEHOST_REPORT_PID", "TRACEHOST_PYTHON",
                             "TRACEHOST_TRACE", "TRACEHOST_INTERCEPT", "TRACEHOST_INTERCEPTION_PID",
                             "TRACEHOST_STANCE", "TRACEHOST_EAGER", "TRACEHOST_MAX_RETRACES"})
      ::unsetenv(name);
  }
  const std::string folder =
      testing::TempDir() + "tracehost_settings_test" + std::to_string(::getpid());
};

TEST_F(SettingsTest, ReportWithoutAValueIsStandardError) {
  auto settings = parsed({"--report", "s.py"});
  EXPECT_EQ(settings.find("report")->values, std::vector<std::string>{"-"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_REPORT"), "-");
  EXPECT_EQ(variable("TRACEHOST_REPORT_PID"), std::to_string(::getpid()));
}

TEST_F(SettingsTest, NothingIsSetWithoutOptions) {
  auto settings = parsed({"s.py"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_REPORT"), "(unset)");
  EXPECT_EQ(variable("TRACEHOST_REPORT_PID"), "(unset)");
  EXPECT_EQ(variable("TRACEHOST_PYTHON"), "(unset)");
}

TEST_F(SettingsTest, InterceptionIsHandedOverWithWhoWasTold) {
  auto settings = parsed({"--trace", "a:f,limit=2", "--trace=b:g", "s.py", "--trace", "c:h"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_TRACE"), "a:f,limit=2\nb:g");
  EXPECT_EQ(variable("TRACEHOST_INTERCEPT"), "(unset)");
  EXPECT_EQ(variable("TRACEHOST_INTERCEPTION_PID"), std::to_string(::getpid()));
}

TEST_F(SettingsTest, InterceptionOfAnEarlierHostStaysAsItIs) {
  ::setenv("TRACEHOST_INTERCEPT", "torch.compile", 1);
  ::setenv("TRACEHOST_INTERCEPTION_PID", "1", 1);
  auto settings = parsed({"s.py"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_INTERCEPT"), "torch.compile");
  EXPECT_EQ(variable("TRACEHOST_INTERCEPTION_PID"), "1");
  settings = parsed({"--intercept=torch.jit.trace", "s.py"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_INTERCEPT"), "torch.jit.trace");
  EXPECT_EQ(variable("TRACEHOST_INTERCEPTION_PID"), std::to_string(::getpid()));
}

TEST_F(SettingsTest, ReportFileBecomesAbsoluteAndIsNotLeftBehind) {
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  std::filesystem::remove("r.txt"); // of a run that has failed
  auto settings = parsed({"--report=r.txt", "s.py"});
  finish(settings);
  const auto wanted = std::filesystem::current_path() / "r.txt";
  std::filesystem::current_path(here);
  EXPECT_EQ(variable("TRACEHOST_REPORT"), wanted.string());
  EXPECT_FALSE(std::filesystem::exists(wanted)) << "the check left an empty file";
}

TEST_F(SettingsTest, ReportFileThatExistsIsKeptUntilTheReportIsWritten) {
  const auto file = folder + "/kept.txt";
  std::ofstream(file) << "old";
  auto settings = parsed({"--report=" + file, "s.py"});
  finish(settings);
  std::string content;
  std::getline(std::ifstream(file) >> std::ws, content);
  EXPECT_EQ(content, "old");
}

TEST_F(SettingsTest, ReportFileThatCannotBeWritten) {
  auto settings = parsed({"--report=/no/such/folder/r.txt", "s.py"});
  try {
    finish(settings);
    FAIL() << "accepted";
  } catch (const UsageError &error) {
    EXPECT_THAT(error.what(), HasSubstr("'/no/such/folder/r.txt' (--report): No such file"));
  }
}

TEST_F(SettingsTest, TwinCountsWhereTheOptionIsNotGiven) {
  ::setenv("TRACEHOST_REPORT", "-", 1);
  auto settings = parsed({"s.py"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_REPORT_PID"), std::to_string(::getpid()));

  ::setenv("TRACEHOST_REPORT", "/no/such/folder/r.txt", 1);
  ::unsetenv("TRACEHOST_REPORT_PID");
  auto again = parsed({"s.py"});
  EXPECT_THROW(finish(again), UsageError);
}

TEST_F(SettingsTest, OptionWinsOverTwin) {
  ::setenv("TRACEHOST_REPORT", "/no/such/folder/r.txt", 1);
  ::setenv("TRACEHOST_PYTHON", "/elsewhere", 1);
  auto settings = parsed({"--report", "--python=/here", "s.py"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_REPORT"), "-");
  EXPECT_EQ(variable("TRACEHOST_PYTHON"), "/here");
}

TEST_F(SettingsTest, EmptyTwinIsNone) {
  ::setenv("TRACEHOST_REPORT", "", 1);
  auto settings = parsed({"s.py"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_REPORT_PID"), "(unset)");
}

TEST_F(SettingsTest, ChildOfAReportingHostLeavesItToItsParent) {
  ::setenv("TRACEHOST_REPORT", "-", 1);
  ::setenv("TRACEHOST_REPORT_PID", "1", 1);
  auto settings = parsed({"s.py"});
  finish(settings);
  EXPECT_EQ(variable("TRACEHOST_REPORT_PID"), "1");
  auto own = parsed({"--report", "s.py"});
  finish(own);
  EXPECT_EQ(variable("TRACEHOST_REPORT_PID"), std::to_string(::getpid()));
}

TEST_F(SettingsTest, MisspeltOptions) {
  EXPECT_THROW(parsed({"--reprot", "s.py"}), Misspelt);
  EXPECT_EQ(complaint({"--reprot", "s.py"}), "--reprot");
  EXPECT_EQ(complaint({"--rep=x", "s.py"}), "--rep");
}

TEST_F(SettingsTest, OptionsUsedWrongly) {
  EXPECT_THAT(complaint({"--python"}), HasSubstr("'--python' is missing"));
  EXPECT_THAT(complaint({"--report", "--report=x", "s.py"}), HasSubstr("more than once"));
  EXPECT_THAT(complaint({"--version=3"}), HasSubstr("--version"));
}

TEST_F(SettingsTest, ValuesThatAreWrong) {
  for (const char *bad : {"0", "-1", "x", "1.5", "+0"})
    EXPECT_EQ(complaint({"--retrace-warn=" + std::string(bad), "s.py"}),
              "--retrace-warn takes off, error or a whole number from 1 on, got '" +
                  std::string(bad) + "'");
  EXPECT_EQ(complaint({"--retrace-warn=off", "s.py"}), "none");
  EXPECT_EQ(complaint({"--retrace-warn=10", "s.py"}), "none");
  EXPECT_EQ(complaint({"--max-retraces=-1", "s.py"}),
            "--max-retraces takes a non-negative integer, got '-1'");
  EXPECT_EQ(complaint({"--eager=x", "s.py"}), "--eager takes true or false, got 'x'");
  EXPECT_EQ(
      complaint({"--stance=x", "s.py"}),
      "--stance takes default, eager, eager_on_miss, eager_on_error or fail_on_miss, got 'x'");
}

TEST_F(SettingsTest, AVariableThatIsWrong) {
  ::setenv("TRACEHOST_STANCE", "soon", 1);
  auto settings = parsed({"s.py"});
  try {
    complete(settings);
    FAIL() << "accepted";
  } catch (const UsageError &error) {
    EXPECT_THAT(error.what(), HasSubstr("TRACEHOST_STANCE takes default, eager, "));
  }
}

TEST_F(SettingsTest, AnOptionWinsOverTheVariableOfOneThatItExcludes) {
  const auto left = [](const std::vector<std::string> &args) {
    ::setenv("TRACEHOST_STANCE", "eager", 1);
    auto settings = parsed(args);
    finish(settings);
    return variable("TRACEHOST_STANCE");
  };
  EXPECT_EQ(left({"--eager", "s.py"}), "(unset)");
  EXPECT_EQ(left({"--eager=false", "s.py"}), "eager");
  EXPECT_EQ(variable("TRACEHOST_EAGER"), "false");
}

TEST_F(SettingsTest, ACommandDoesNotWriteTheFilesOfARun) {
  ::setenv("TRACEHOST_REPORT", "-", 1);
  ::setenv("TRACEHOST_MAX_RETRACES", "3", 1);
  ::setenv("TRACEHOST_STANCE", "eager", 1);
  leave_out_runs_own();
  EXPECT_EQ(variable("TRACEHOST_REPORT"), "(unset)");
  EXPECT_EQ(variable("TRACEHOST_MAX_RETRACES"), "(unset)");
  EXPECT_EQ(variable("TRACEHOST_STANCE"), "eager");
}

TEST(Table, EveryOptionIsInTheJson) {
  for (const auto &option : options())
    EXPECT_THAT(options_as_json(), HasSubstr("\"name\": \"" + std::string(option.name) + "\""));
  EXPECT_THAT(options_as_json(), HasSubstr("\"variable\": \"TRACEHOST_METRICS_FILE\""));
}

TEST(Table, ValuesHaveAKindAndChoicesAtLeastTwoWords) {
  for (const auto &option : options()) {
    EXPECT_EQ(option.takes == Takes::nothing, option.kind == Kind::none) << option.name;
    EXPECT_EQ(option.takes == Takes::nothing, option.placeholder.empty()) << option.name;
    EXPECT_EQ(option.kind == Kind::choice, choices(option).size() >= 2) << option.name;
  }
}

} // namespace
} // namespace tracehost::cli
