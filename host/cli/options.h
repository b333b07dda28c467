// The one table of the options of `tracehost run`. Parsing and suggestions read it here; help,
// completion, the manual page and the commands in Python read it as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tracehost::cli {

// What a value is.
enum class Kind {
  none,   // there is no value
  text,   // anything
  whole,  // a non-negative integer
  choice, // one of the placeholder's words: `default|eager`
  limit,  // `off`, `error` or a whole number from 1 on
  file,   // that is read
  output, // a file that is written; also `-`
};

// An optional value comes behind '=' only.
enum class Takes { nothing, value, values, optional_value };

struct Option {
  std::string_view name; // without the dashes: one letter is Python's
  Takes takes;
  Kind kind;
  std::string_view placeholder;
  std::string_view summary;
  std::string_view group = ""; // options of one group exclude each other
};

std::span<const Option> options();
const Option *find_option(std::string_view name);

// Whether it says something that lasts: not --help and --version.
bool is_setting(const Option &option);
// The environment variable that says the same: TRACEHOST_METRICS_FILE.
std::string variable(const Option &option);
// The words of a choice: of `default|eager` two.
std::vector<std::string_view> choices(const Option &option);
// `a non-negative integer`, `default, eager or fail_on_miss`
std::string what_it_takes(const Option &option);

std::string options_as_json();

// The names of commands; all but `run` are made in Python, by the package tracehost_commands.
std::span<const std::string_view> commands();
bool is_command(std::string_view word);

} // namespace tracehost::cli
