// The command line cut in two: what the host takes, and what Python gets, to the letter.
#include "cli/split.h"

#include <gmock/gmock.h>

#include <ostream>

namespace tracehost::cli {
namespace {

using Words = std::vector<std::string>;

struct Case {
  const char *name;
  Words args;
  Words host;
  Words rest;
  std::string command = "";
  std::string unknown = "";
};

void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }

class SplitTest : public testing::TestWithParam<Case> {};

TEST_P(SplitTest, Cuts) {
  const auto &c = GetParam();
  const auto result = split(c.args, [](const std::string &path) { return path == "present"; });
  EXPECT_EQ(result.options, c.host);
  EXPECT_EQ(result.rest, c.rest);
  EXPECT_EQ(result.command, c.command);
  EXPECT_EQ(result.unknown_word, c.unknown);
}

const Case cases[] = {
    {"nothing", {}, {}, {}},
    {"script_alone", {"s.py"}, {}, {"s.py"}},
    {"script_keeps_its_options", {"s.py", "--lr", "0.1", "-v"}, {}, {"s.py", "--lr", "0.1", "-v"}},
    {"host_option_before", {"--report", "s.py"}, {"--report=-"}, {"s.py"}},
    {"same_option_after_is_the_scripts", {"s.py", "--report=x"}, {}, {"s.py", "--report=x"}},
    {"both", {"--report=a", "s.py", "--report=b"}, {"--report=a"}, {"s.py", "--report=b"}},
    {"optional_value_never_takes_the_script", {"--report", "a.txt"}, {"--report=-"}, {"a.txt"}},
    {"value_in_next_word", {"--python", "v", "s.py"}, {"--python=v"}, {"s.py"}},
    {"value_behind_equals", {"--python=v", "s.py"}, {"--python=v"}, {"s.py"}},
    {"value_missing", {"--python"}, {"--python"}, {}},
    {"equals_in_a_value", {"--report=a=b", "s.py"}, {"--report=a=b"}, {"s.py"}},
    {"unknown_option_ends_all", {"--verb", "s.py"}, {"--verb"}, {}},
    {"double_dash_goes_to_python", {"--", "doctor"}, {}, {"--", "doctor"}},
    {"double_dash_behind_option", {"--report", "--", "s"}, {"--report=-"}, {"--", "s"}},
    {"double_dash_of_the_script", {"s.py", "--", "-x"}, {}, {"s.py", "--", "-x"}},
    {"dash_is_standard_input", {"-", "--report"}, {}, {"-", "--report"}},
    {"code", {"-c", "pass", "--report"}, {}, {"-c", "pass", "--report"}},
    {"code_in_the_same_word", {"-cpass", "--report"}, {}, {"-cpass", "--report"}},
    {"module", {"--report", "-m", "m", "--report"}, {"--report=-"}, {"-m", "m", "--report"}},
    {"cluster_with_code", {"-Buc", "pass", "-x"}, {}, {"-Buc", "pass", "-x"}},
    {"pythons_options_mix_with_ours",
     {"-u", "--report", "-O", "s.py"},
     {"--report=-"},
     {"-u", "-O", "s.py"}},
    {"warning_filter_in_next_word",
     {"-W", "error", "--report", "s.py"},
     {"--report=-"},
     {"-W", "error", "s.py"}},
    {"warning_filter_in_same_word",
     {"-Werror", "--report", "s.py"},
     {"--report=-"},
     {"-Werror", "s.py"}},
    {"x_option_value_that_ends_in_c",
     {"-Xdevc", "s.py", "--report"},
     {},
     {"-Xdevc", "s.py", "--report"}},
    {"x_option_value_named_like_a_command", {"-X", "run", "s.py"}, {}, {"-X", "run", "s.py"}},
    {"pythons_long_option",
     {"--check-hash-based-pycs", "never", "--report", "s.py"},
     {"--report=-"},
     {"--check-hash-based-pycs", "never", "s.py"}},
    {"run", {"run", "s.py", "a"}, {}, {"s.py", "a"}, "run"},
    {"run_with_options_on_both_sides",
     {"--report", "run", "--python=v", "s.py"},
     {"--report=-", "--python=v"},
     {"s.py"},
     "run"},
    {"run_a_script_named_like_a_command", {"run", "doctor"}, {}, {"doctor"}, "run"},
    {"path_named_like_a_command", {"./doctor"}, {}, {"./doctor"}},
    {"script_argument_named_like_a_command", {"s.py", "doctor"}, {}, {"s.py", "doctor"}},
    {"doctor", {"doctor", "--python", "v"}, {}, {"--python", "v"}, "doctor"},
    {"a_command_reads_its_own_words",
     {"notebook", "-p", "x=-1", "--inplace", "a", "--", "--help"},
     {},
     {"-p", "x=-1", "--inplace", "a", "--", "--help"},
     "notebook"},
    {"options_in_front_of_a_command",
     {"--python", "v", "--eager", "notebook", "--eager"},
     {"--python=v", "--eager=true"},
     {"--eager"},
     "notebook"},
    {"a_command_that_runs_a_program",
     {"lock", "--update", "-W", "error", "s.py", "--update"},
     {},
     {"--update", "-W", "error", "s.py", "--update"},
     "lock"},
    {"frozen_without_a_file", {"--frozen", "s.py"}, {"--frozen=-"}, {"s.py"}},
    {"help_has_no_value", {"--help", "s.py"}, {"--help"}, {"s.py"}},
    {"flag", {"--eager", "s.py"}, {"--eager=true"}, {"s.py"}},
    {"value_that_looks_like_an_option",
     {"--python", "--eager", "s.py"},
     {"--python=--eager"},
     {"s.py"}},
    {"letter_of_a_command_is_pythons_in_front", {"-i", "notebook"}, {}, {"-i", "notebook"}},
    {"help", {"help", "run"}, {}, {"run"}, "help"},
    {"unknown_word", {"docter", "--x"}, {}, {"docter", "--x"}, "", "docter"},
    {"bare_word_that_is_a_file", {"present", "--x"}, {}, {"present", "--x"}},
    {"missing_file_is_pythons_to_say", {"missing.py"}, {}, {"missing.py"}},
    {"negative_number_of_the_script", {"s.py", "-1"}, {}, {"s.py", "-1"}},
    {"empty_word", {""}, {}, {""}},
};

INSTANTIATE_TEST_SUITE_P(Table, SplitTest, testing::ValuesIn(cases),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tracehost::cli
