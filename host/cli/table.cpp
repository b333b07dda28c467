#include "cli/table.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tracehost::cli {
namespace {

constexpr CommandEntry command_table[] = {
    {Command::run, "run",
     "run [OPTION...] SCRIPT [ARG...]\n"
     "run [OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]",
     "run a Python program; the word itself may be left out",
     "As `python SCRIPT`: same output, same exit code, same signals. Options stand before the "
     "script;\n"
     "what follows the script belongs to it. Python's own options (-u, -O, -W ARG, -X OPT, -i "
     "...)\n"
     "are taken as well. A script that is named like a command: tracehost run NAME."},
    {Command::doctor, "doctor", "doctor [OPTION...]",
     "check versions and paths; says what to do about what is wrong",
     "One line a check: OK, WARN or FAIL. The exit code is 1 if anything is FAIL."},
    {Command::help, "help", "help [COMMAND]", "show this, or the help of a command", ""},
};

constexpr OptionEntry option_table[] = {
    {"report", Takes::optional_value, "FILE", "TRACEHOST_REPORT",
     "at exit, write a table of traces and hits (default: stderr)", true, false},
    {"python", Takes::value, "PATH", "TRACEHOST_PYTHON",
     "use this virtual environment, or that of this interpreter", true, true},
    {"version", Takes::nothing, "", "", "show the versions of tracehost, Python and torch", true,
     true},
    {"help", Takes::nothing, "", "", "show help", true, true},
};

// Levenshtein; names are a dozen letters long.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// Near enough: one edit for each three letters, at least one; or the beginning of the name.
class Nearest {
public:
  explicit Nearest(std::string_view word)
      : word_(word), best_(std::max<std::size_t>(1, word.size() / 3) + 1) {}
  void offer(std::string_view name) {
    const bool begins = word_.size() >= 2 && name.starts_with(word_);
    const auto edits = begins ? 1 : distance(word_, name);
    if (edits < best_) {
      best_ = edits;
      name_ = std::string(name);
    }
  }
  const std::optional<std::string> &name() const { return name_; }

private:
  std::string_view word_;
  std::size_t best_;
  std::optional<std::string> name_;
};

} // namespace

std::span<const CommandEntry> commands() { return command_table; }
std::span<const OptionEntry> options() { return option_table; }

const CommandEntry &entry(Command command) {
  return *std::ranges::find(command_table, command, &CommandEntry::command);
}

const CommandEntry *find_command(std::string_view name) {
  const auto *found = std::ranges::find(command_table, name, &CommandEntry::name);
  return found == std::end(command_table) ? nullptr : found;
}

const OptionEntry *find_option(std::string_view name) {
  const auto *found = std::ranges::find(option_table, name, &OptionEntry::name);
  return found == std::end(option_table) ? nullptr : found;
}

bool applies(const OptionEntry &option, Command command) {
  return command == Command::run ? option.run : command == Command::doctor && option.doctor;
}

std::optional<std::string> nearest_command(std::string_view word) {
  Nearest nearest(word);
  for (const auto &command : command_table)
    nearest.offer(command.name);
  return nearest.name();
}

std::optional<std::string> nearest_option(std::string_view name, Command command) {
  Nearest nearest(name);
  for (const auto &option : option_table)
    if (applies(option, command))
      nearest.offer(option.name);
  return nearest.name();
}

} // namespace tracehost::cli
