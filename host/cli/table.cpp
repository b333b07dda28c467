#include "cli/table.h"

#include "cli/nearest.h"

#include <algorithm>

namespace tracehost::cli {

const CommandEntry &entry(Command command) {
  return *std::ranges::find(commands(), command, &CommandEntry::command);
}

const CommandEntry *find_command(std::string_view name) {
  const auto found = std::ranges::find(commands(), name, &CommandEntry::name);
  return found == commands().end() ? nullptr : &*found;
}

const OptionEntry *find_option(std::string_view name, Command command) {
  for (const OptionEntry &own : options_of(command))
    if (own.name == name)
      return &own;
  const auto found = std::ranges::find(options(), name, &OptionEntry::name);
  return found == options().end() ? nullptr : &*found;
}

const OptionEntry *find_letter(char letter, Command command) {
  for (const OptionEntry &own : options_of(command))
    if (own.letter == letter)
      return &own;
  return nullptr;
}

bool applies(const OptionEntry &option, Command command) {
  return (option.commands & bit(command)) != 0;
}

std::vector<std::reference_wrapper<const OptionEntry>> options_of(Command command) {
  std::vector<std::reference_wrapper<const OptionEntry>> found;
  for (const OptionEntry &option : options())
    if (applies(option, command))
      found.emplace_back(option);
  return found;
}

bool runs_program(Command command) { return entry(command).words == Kind::program; }

bool is_setting(const OptionEntry &option) {
  return option.name != "help" && option.name != "version";
}

bool is_shared(const OptionEntry &option) { return applies(option, Command::run); }

std::string variable(const OptionEntry &option, Command command) {
  std::string name = "TRACEHOST_";
  if (!is_shared(option))
    name += std::string(entry(command).name) + "_";
  name += option.name;
  std::ranges::transform(name, name.begin(), [](char c) {
    return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

std::vector<std::string_view> choices(std::string_view placeholder) {
  std::vector<std::string_view> words;
  while (!placeholder.empty()) {
    const auto bar = std::min(placeholder.find('|'), placeholder.size());
    words.push_back(placeholder.substr(0, bar));
    placeholder.remove_prefix(std::min(bar + 1, placeholder.size()));
  }
  return words;
}

std::optional<std::string> nearest_command(std::string_view word) {
  std::vector<std::string_view> names;
  for (const auto &command : commands())
    names.push_back(command.name);
  return nearest(word, names);
}

std::optional<std::string> nearest_option(std::string_view name, Command command) {
  std::vector<std::string_view> names;
  for (const OptionEntry &option : options_of(command))
    names.push_back(option.name);
  return nearest(name, names);
}

} // namespace tracehost::cli
