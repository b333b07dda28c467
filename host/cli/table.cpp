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
  auto found = std::ranges::find_if(options(), [&](const OptionEntry &option) {
    return option.name == name && applies(option, command);
  });
  if (found == options().end())
    found = std::ranges::find(options(), name, &OptionEntry::name);
  return found == options().end() ? nullptr : &*found;
}

const OptionEntry *find_letter(char letter, Command command) {
  const auto found = std::ranges::find_if(options(), [&](const OptionEntry &option) {
    return option.letter == letter && applies(option, command);
  });
  return found == options().end() ? nullptr : &*found;
}

bool applies(const OptionEntry &option, Command command) {
  return (option.commands & bit(command)) != 0;
}

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
  Nearest nearest(word);
  for (const auto &command : commands())
    nearest.offer(command.name);
  return nearest.name();
}

std::optional<std::string> nearest_option(std::string_view name, Command command) {
  Nearest nearest(name);
  for (const auto &option : options())
    if (applies(option, command))
      nearest.offer(option.name);
  return nearest.name();
}

} // namespace tracehost::cli
