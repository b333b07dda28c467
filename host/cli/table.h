// The one table of commands and host options: splitting, parsing, help and suggestions all read it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tracehost::cli {

enum class Command { run, notebook, kernel, repl, export_, inspect, doctor, help };

// A set of commands, as an option has it.
constexpr unsigned bit(Command command) { return 1U << static_cast<unsigned>(command); }

struct CommandEntry {
  Command command;
  std::string_view name;
  std::string_view synopsis; // what follows "tracehost"; one line each
  std::string_view summary;
  std::string_view detail;
};

// An optional value comes behind '=' only.
enum class Takes { nothing, value, values, optional_value };

struct OptionEntry {
  std::string_view name; // without the dashes
  char letter;           // '\0': long only, as all options of `run` are: short ones are Python's
  Takes takes;
  std::string_view placeholder;
  std::string_view twin; // the environment variable that says the same; empty: none
  std::string_view summary;
  unsigned commands; // bits of those that know it; `help` knows none
};

std::span<const CommandEntry> commands();
std::span<const OptionEntry> options();

const CommandEntry &entry(Command command);
const CommandEntry *find_command(std::string_view name);
// The command's own, else another's of that name.
const OptionEntry *find_option(std::string_view name, Command command);
const OptionEntry *find_letter(char letter, Command command);
bool applies(const OptionEntry &option, Command command);

// Whether it is made in Python: its options and words are for tracehost_commands.
bool is_in_python(Command command);

// The nearest of the table's names to a misspelt one, if it is near enough to be meant.
std::optional<std::string> nearest_command(std::string_view word);
std::optional<std::string> nearest_option(std::string_view name, Command command);

} // namespace tracehost::cli
