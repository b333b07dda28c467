#include "cli/help.h"

#include "cli/values.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace tracehost::cli {
namespace {

// Many choices stand with the summary, not in the left column.
bool has_many_choices(const OptionEntry &option) {
  return option.kind == Kind::choice && option.placeholder.size() > 24;
}

std::string placeholder(const OptionEntry &option) {
  return has_many_choices(option) ? "NAME" : std::string(option.placeholder);
}

std::string spelled(const OptionEntry &option) {
  std::string text = "--" + std::string(option.name);
  if (option.letter != '\0')
    text = std::string("-") + option.letter + ", " + text;
  if (option.takes == Takes::value || option.takes == Takes::values)
    text += " " + placeholder(option);
  if (option.takes == Takes::optional_value)
    text += "[=" + placeholder(option) + "]";
  return text;
}

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> result;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);)
    result.push_back(line);
  return result;
}

// As `text`, with line breaks so that no line is longer than `width`.
std::string wrapped(std::string_view text, std::size_t width) {
  std::string result;
  for (const auto &line : lines(text)) {
    std::istringstream words(line);
    std::size_t used = 0;
    for (std::string word; words >> word; used += word.size() + 1) {
      const bool fits = used + word.size() <= width;
      result += used == 0 ? "" : fits ? " " : "\n";
      used = fits ? used : 0;
      result += word;
    }
    result += '\n';
  }
  return result;
}

constexpr std::size_t least_width = 18; // of the left column

void two_columns(std::ostream &out, std::string left, std::string_view right,
                 std::size_t width = least_width) {
  for (const auto &line : lines(right)) {
    out << "  " << left << std::string(left.size() < width ? width - left.size() : 1, ' ') << line
        << '\n';
    left.clear();
  }
}

void usage(std::ostream &out, const std::vector<std::string> &forms) {
  const char *lead = "usage: ";
  for (const auto &form : forms) {
    out << lead << "tracehost " << form << '\n';
    lead = "       ";
  }
}

void list_commands(std::ostream &out) {
  out << "\ncommands:\n";
  for (const auto &command : commands())
    two_columns(out, std::string(command.name), command.summary);
}

void list_options(std::ostream &out, Command command) {
  std::size_t width = 0;
  for (const OptionEntry &option : options_of(command))
    width = std::max({width, spelled(option).size() + 2, least_width});
  if (width > 0)
    out << "\noptions:\n";
  for (const OptionEntry &option : options_of(command)) {
    auto text = std::string(option.summary);
    if (has_many_choices(option))
      text += ": " + what_it_takes(option);
    two_columns(out, spelled(option), wrapped(text, 80 - width - 2), width);
  }
}

// By the example of an option: the command's own rather than one that all have, one with a value
// rather than a flag.
void tell_of_variables(std::ostream &out, Command command) {
  const OptionEntry *example = nullptr;
  const auto rank = [](const OptionEntry &option) {
    return (is_shared(option) ? 0 : 2) + (option.takes == Takes::value ? 1 : 0);
  };
  for (const OptionEntry &option : options_of(command))
    if (is_setting(option) && (example == nullptr || rank(option) > rank(*example)))
      example = &option;
  if (example == nullptr)
    return;
  out << '\n'
      << wrapped("Each option has an environment variable, too: --" + std::string(example->name) +
                     " has " + variable(*example, command) +
                     ". `tracehost doctor` shows what is set.",
                 80);
}

constexpr std::string_view what_it_is =
    "\nRuns a Python program as python does. In it, "
    "@tracehost.function turns PyTorch\n"
    "functions into cached TorchScript graphs, one for each call signature.\n";

const std::vector<std::string> forms = {
    "[OPTION...] SCRIPT [ARG...]",
    "[OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]",
    "COMMAND ...",
};

} // namespace

std::string general_help() {
  std::ostringstream out;
  usage(out, forms);
  out << what_it_is;
  list_commands(out);
  list_options(out, Command::run);
  out << "\nOptions stand before the script; what follows the script belongs to it. Python's\n"
         "own short options (-u, -O, -W ARG, -X OPT, -i ...) are taken as well.\n";
  tell_of_variables(out, Command::run);
  return out.str();
}

std::string command_help(Command command) {
  const auto &about = entry(command);
  std::ostringstream out;
  usage(out, lines(about.synopsis));
  out << '\n' << about.summary << '\n';
  if (!about.detail.empty())
    out << about.detail << '\n';
  list_options(out, command);
  tell_of_variables(out, command);
  return out.str();
}

std::string short_help() {
  std::ostringstream out;
  usage(out, forms);
  out << what_it_is
      << "\n`tracehost help` says more, `tracehost doctor` checks this installation.\n";
  return out.str();
}

} // namespace tracehost::cli
