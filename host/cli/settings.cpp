#include "cli/settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

namespace tracehost::cli {
namespace {

Command owner(const OptionEntry &option, Command command) {
  return is_shared(option) ? Command::run : command;
}

bool excludes(const Given &a, const Given &b) {
  return a.is_on() && a.command == b.command && a.option->group != '\0' &&
         a.option->group == b.option->group;
}

std::vector<std::string> lines_of(const std::string &text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty())
      result.push_back(line);
  return result;
}

std::optional<Given> from_environment(const OptionEntry &option, Command command) {
  const auto name = variable(option, command);
  const char *text = std::getenv(name.c_str());
  if (text == nullptr || *text == '\0')
    return std::nullopt;
  Given given{&option, owner(option, command), {text}, name};
  if (option.takes == Takes::values)
    given.values = lines_of(text);
  check_values(given, name);
  return given;
}

// Adds what variables say to these commands, where no option has said it.
void add_variables(std::vector<Given> &given, unsigned commands_of) {
  const auto said = static_cast<std::ptrdiff_t>(given.size());
  for (const auto &option : options()) {
    if (!is_setting(option) || (option.commands & commands_of) == 0)
      continue;
    for (const auto &command : commands()) {
      const bool asked = is_shared(option) ? command.command == Command::run
                                           : applies(option, command.command) &&
                                                 (bit(command.command) & commands_of) != 0;
      if (!asked)
        continue;
      auto found = from_environment(option, command.command);
      if (found && std::none_of(given.begin(), given.begin() + said, [&](const Given &other) {
            return (other.option == found->option && other.command == found->command) ||
                   excludes(other, *found);
          }))
        given.push_back(std::move(*found));
    }
  }
}

void set(const std::string &name, const std::string &value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

// Found out before the program runs: after an hour of training it would be too late.
void check_writable(const std::string &file, const std::string &said_by) {
  struct stat now = {};
  const bool was_there = ::stat(file.c_str(), &now) == 0;
  if (was_there && !S_ISREG(now.st_mode) && !S_ISDIR(now.st_mode))
    return; // a pipe's reader would see its end
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0)
    throw UsageError("cannot write '" + file + "' (" + said_by + "): " + std::strerror(errno) +
                     "; name a file in a directory you can write to");
  ::close(descriptor);
  if (!was_there)
    ::unlink(file.c_str());
}

// The end of its name says what is written.
void check_form(const std::string &file, const std::string &said_by) {
  const auto form = std::filesystem::path(file).extension().string();
  for (const char *known : {"", ".txt", ".html", ".json"})
    if (form == known)
      return;
  throw UsageError("'" + file + "' (" + said_by + ") ends in '" + form +
                   "'; a report is .html, .json or .txt");
}

void check_output(const Given &given) {
  const auto &file = given.values.front();
  if (given.option->name == "report")
    check_form(file, given.origin);
  if (file != "-")
    check_writable(file, given.origin);
}

// --frozen alone is --frozen=tracehost.lock. A lock that is missing is found before the program
// runs.
void find_lock(Given &given) {
  auto &file = given.values.front();
  if (file == "0" || file == "false")
    return;
  if (file == "-" || file == "1" || file == "true")
    file = "tracehost.lock";
  make_absolute(given);
  if (::access(file.c_str(), R_OK) != 0)
    throw UsageError("cannot open '" + file + "' (" + given.origin + "): " + std::strerror(errno) +
                     "; write it with 'tracehost lock SCRIPT'");
}

// What is done at exit, of a run.
bool has_owner(const OptionEntry &option) {
  return option.kind == Kind::output || option.name == "max-retraces";
}

// It is done by this process, not by its children: the variable names it.
void apply_owner(const Given &given) {
  const auto name = variable(*given.option, Command::run);
  const auto owner = name + "_PID";
  const char *above = std::getenv(owner.c_str()); // a host above us set it: that one writes
  if (given.origin == name && above != nullptr && *above != '\0')
    return;
  if (given.option->kind == Kind::output)
    check_output(given);
  set(owner, std::to_string(::getpid()));
}

// Only the process that got the option reports what could not be traced; its children do not. A
// command in Python starts the program itself.
void apply_interception(const Given &given, Command command) {
  const bool inherited = given.origin == variable(*given.option, Command::run);
  if (!inherited && command == Command::run)
    set("TRACEHOST_INTERCEPTION_PID", std::to_string(::getpid()));
}

} // namespace

const Given *Settings::find(std::string_view name) const {
  for (const auto &one : given)
    if (one.option->name == name)
      return &one;
  return nullptr;
}

std::string Settings::text(std::string_view name) const {
  const auto *found = find(name);
  return found == nullptr || !found->is_on() ? std::string() : found->values.front();
}

bool Settings::is_on(std::string_view name) const {
  const auto *found = find(name);
  return found != nullptr && found->is_on();
}

void complete(Settings &settings) { add_variables(settings.given, bit(settings.command)); }

std::vector<Given> all_settings(const Settings &settings) {
  auto all = settings.given;
  add_variables(all, ~0U);
  return all;
}

std::string full_name(const OptionEntry &option, Command command) {
  return (is_shared(option) ? "" : std::string(entry(command).name) + ".") +
         std::string(option.name);
}

void apply(Settings &settings) {
  // What an option excludes is not to reach the program as a variable. Nor is a file of `run` to be
  // written by another command.
  for (const auto &option : options())
    if (is_shared(option) && is_setting(option) &&
        (applies(option, settings.command) || has_owner(option)) &&
        settings.find(option.name) == nullptr)
      ::unsetenv(variable(option, Command::run).c_str());
  for (auto &given : settings.given) {
    if (!is_shared(*given.option) || given.values.empty())
      continue;
    if (given.option->name == "frozen")
      find_lock(given);
    else
      make_absolute(given);
    if (has_owner(*given.option))
      apply_owner(given);
    if (given.option->name == "trace" || given.option->name == "intercept")
      apply_interception(given, settings.command);
    std::string text;
    for (const auto &value : given.values)
      text += (text.empty() ? "" : "\n") + value;
    set(variable(*given.option, Command::run), text);
  }
}

std::vector<std::string> words_for_python(const Settings &settings) {
  std::vector<std::string> words;
  for (const auto &given : settings.given) {
    if (is_shared(*given.option) || !given.is_on())
      continue;
    for (const auto &value : given.values)
      words.push_back("--" + std::string(given.option->name) +
                      (given.is_flag() ? "" : "=" + value));
  }
  return words;
}

} // namespace tracehost::cli
