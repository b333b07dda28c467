// Host options, their environment twins, and the message for a mistyped one.
#include "cli/help.h"
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
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char *name :
         {"TRACEHOST_REPORT", "TRACEHOST_REPORT_PID", "TRACEHOST_PYTHON", "TRACEHOST_TRACE",
          "TRACEHOST_INTERCEPT", "TRACEHOST_INTERCEPTION_PID"})
      ::unsetenv(name);
  }
  const std::string folder = testing::TempDir();
};

TEST_F(SettingsTest, ReportWithoutAValueIsStandardError) {
  auto settings = parsed({"--report", "s.py"});
  EXPECT_EQ(settings.text("report"), "-");
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
  EXPECT_EQ(complaint({"--reprot", "s.py"}),
            "unknown option '--reprot'; did you mean '--report'? (try 'tracehost help run')");
  EXPECT_EQ(complaint({"--rep=x", "s.py"}),
            "unknown option '--rep'; did you mean '--report'? (try 'tracehost help run')");
  EXPECT_EQ(complaint({"--pyton", "v", "s.py"}),
            "unknown option '--pyton'; did you mean '--python'? (try 'tracehost help run')");
  EXPECT_EQ(complaint({"--quite-different", "s.py"}),
            "unknown option '--quite-different' (try 'tracehost help run')");
}

TEST_F(SettingsTest, OptionsUsedWrongly) {
  EXPECT_THAT(complaint({"doctor", "--report"}), HasSubstr("does not apply to 'doctor'"));
  EXPECT_THAT(complaint({"--python"}), HasSubstr("'--python' is missing"));
  EXPECT_THAT(complaint({"--report", "--report=x", "s.py"}), HasSubstr("more than once"));
  EXPECT_THAT(complaint({"--version=3"}), HasSubstr("--version"));
}

TEST(Table, EveryOptionIsInTheHelp) {
  const auto general = general_help();
  for (const auto &option : options()) {
    for (const auto &command : commands()) {
      if (!applies(option, command.command))
        continue;
      const auto where = command.command == Command::run ? general : command_help(command.command);
      EXPECT_THAT(where, HasSubstr("--" + std::string(option.name)));
    }
  }
  for (const auto &command : commands())
    EXPECT_THAT(general, HasSubstr("  " + std::string(command.name)));
}

TEST_F(SettingsTest, ACommandInPythonGetsItsOptionsInTheirOrder) {
  const auto settings = parsed(
      {"notebook", "-p", "a=1", "--python=v", "n.ipynb", "--html", "-p", "b=x y", "--output", "-"});
  EXPECT_THAT(words_for_python(settings),
              testing::ElementsAre("--param=a=1", "--param=b=x y", "--html=-", "--output=-"));
  EXPECT_EQ(settings.text("python"), "v");
  EXPECT_THAT(words_for_python(parsed({"--python=v", "s.py"})), testing::IsEmpty());
}

TEST_F(SettingsTest, ACommandInPythonWithOptionsThatAreWrong) {
  EXPECT_EQ(complaint({"notebook", "-z", "n.ipynb"}),
            "unknown option '-z' (try 'tracehost help notebook')");
  EXPECT_EQ(complaint({"notebook", "--parm=a=1"}),
            "unknown option '--parm'; did you mean '--param'? (try 'tracehost help notebook')");
  EXPECT_THAT(complaint({"notebook", "-o"}), HasSubstr("'--output' is missing"));
  EXPECT_THAT(complaint({"notebook", "-o", "a", "-o", "b"}), HasSubstr("more than once"));
  EXPECT_EQ(complaint({"notebook", "--inplace=x"}), "--inplace takes true or false, got 'x'");
  EXPECT_EQ(complaint({"notebook", "--timeout=x"}),
            "--timeout takes a non-negative number, got 'x'");
  EXPECT_EQ(complaint({"notebook", "-j=1.5"}), "--jobs takes a non-negative integer, got '=1.5'");
  for (const char *bad : {"0", "-1", "x", "1.5", "+0"})
    EXPECT_EQ(complaint({"--retrace-warn=" + std::string(bad), "s.py"}),
              "--retrace-warn takes a whole number from 1 on, off or error, got '" +
                  std::string(bad) + "'");
  EXPECT_EQ(complaint({"--retrace-warn=off", "s.py"}), "none");
  EXPECT_EQ(complaint({"--retrace-warn=10", "s.py"}), "none");
  EXPECT_EQ(
      complaint({"--stance=x", "s.py"}),
      "--stance takes default, eager, eager_on_miss, eager_on_error or fail_on_miss, got 'x'");
  EXPECT_THAT(complaint({"--inplace", "s.py"}), HasSubstr("does not apply to 'run'"));
  EXPECT_THAT(complaint({"kernel", "--report", "list"}), HasSubstr("does not apply to 'kernel'"));
}

TEST_F(SettingsTest, OneNameOfTwoOptionsIsTheCommandsOwn) {
  EXPECT_EQ(find_option("device", Command::export_)->commands,
            bit(Command::export_) | bit(Command::bench));
  EXPECT_EQ(find_option("device", Command::inspect)->commands, bit(Command::inspect));
  EXPECT_EQ(find_option("output", Command::run)->name, "output") << "another's, to be told so";
  EXPECT_EQ(find_option("outputs", Command::export_), nullptr);
  EXPECT_THAT(words_for_python(
                  parsed({"export", "--signature", "f32[]", "--signature", "i64[]", "-o", "a.pt"})),
              testing::ElementsAre("--signature=f32[]", "--signature=i64[]", "--output=a.pt"));
  EXPECT_THAT(complaint({"inspect", "-o", "a.pt"}), HasSubstr("unknown option '-o'"));
  EXPECT_THAT(complaint({"inspect", "--output", "a.pt"}), HasSubstr("does not apply to 'inspect'"));
  EXPECT_THAT(complaint({"export", "-o", "a", "--output=b"}), HasSubstr("more than once"));
}

TEST(Table, HelpNamesAVariableAsAnExample) {
  EXPECT_THAT(general_help(), HasSubstr("too: --metrics-file has\nTRACEHOST_METRICS_FILE."));
  EXPECT_THAT(command_help(Command::notebook),
              HasSubstr("too: --output has\nTRACEHOST_NOTEBOOK_OUTPUT."));
  EXPECT_THAT(command_help(Command::completion), testing::Not(HasSubstr("variable")));
}

TEST(Table, NearestNames) {
  EXPECT_EQ(nearest_command("docter"), "doctor");
  EXPECT_EQ(nearest_command("rnu"), std::nullopt); // two edits of three letters: not near
  EXPECT_EQ(nearest_command("ru"), "run");
  EXPECT_EQ(nearest_command("halp"), "help");
  EXPECT_EQ(nearest_command("train"), std::nullopt);
  EXPECT_EQ(nearest_option("vresion", Command::run), "version");
}

} // namespace
} // namespace tracehost::cli
