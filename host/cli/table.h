// The one table of commands and host options: splitting, parsing, help and suggestions all read it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tracehost::cli {

enum class Command {
  run,
  lock,
  notebook,
  kernel,
  repl,
  export_,
  inspect,
  bench,
  report,
  doctor,
  completion,
  help
};

// A set of commands, as an option has it.
constexpr unsigned bit(Command command) { return 1U << static_cast<unsigned>(command); }

// What a value of an option, or a word of a command, is.
enum class Kind {
  none,     // there is no value, and no word
  text,     // anything
  whole,    // a non-negative integer
  number,   // a non-negative number
  choice,   // one of the placeholder's words: `default|eager`
  limit,    // a whole number from 1 on, or `off`
  file,     // that is read; also `-`
  output,   // a file that is written; also `-`
  folder,   // a directory
  notebook, // a file that ends in .ipynb
  program,  // what Python runs, and the arguments of that
  target,   // MODULE:FUNCTION or SCRIPT.py:FUNCTION
  command,  // the name of a command
};

struct CommandEntry {
  Command command;
  std::string_view name;
  std::string_view synopsis; // what follows "tracehost"; one line each
  std::string_view summary;
  std::string_view detail;
  Kind words;
  std::string_view choices; // of the words
};

// An optional value comes behind '=' only.
enum class Takes { nothing, value, values, optional_value };

struct OptionEntry {
  std::string_view name; // without the dashes
  char letter;           // '\0': long only, as all options of `run` are: short ones are Python's
  Takes takes;
  Kind kind;
  std::string_view placeholder;
  std::string_view summary;
  unsigned commands; // bits of those that know it; `help` knows none
  char group = '\0'; // options of one group exclude each other
};

std::span<const CommandEntry> commands();
std::span<const OptionEntry> options();

const CommandEntry &entry(Command command);
const CommandEntry *find_command(std::string_view name);
// The command's own, else another's of that name.
const OptionEntry *find_option(std::string_view name, Command command);
const OptionEntry *find_letter(char letter, Command command);
bool applies(const OptionEntry &option, Command command);
// Those that a command knows.
std::vector<std::reference_wrapper<const OptionEntry>> options_of(Command command);

// Whether its words are what Python runs, with Python's own short options.
bool runs_program(Command command);

// Whether it is made in Python: its options and words are for tracehost_commands.
bool is_in_python(Command command);

// Whether it says something that lasts: not --help and --version.
bool is_setting(const OptionEntry &option);
// Whether it is one setting for all commands that know it, since `run` does. Others are each
// command's own.
bool is_shared(const OptionEntry &option);
// The environment variable that says the same: TRACEHOST_PYTHON, TRACEHOST_NOTEBOOK_TIMEOUT.
std::string variable(const OptionEntry &option, Command command);

// The words of a choice: of `default|eager` two.
std::vector<std::string_view> choices(std::string_view placeholder);

// The nearest of the table's names to a misspelt one, if it is near enough to be meant.
std::optional<std::string> nearest_command(std::string_view word);
std::optional<std::string> nearest_option(std::string_view name, Command command);

} // namespace tracehost::cli
