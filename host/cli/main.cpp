// Two personalities in one binary. As tracehost-python (sys.executable, and what every child
// process runs) it is Python and nothing else; as tracehost it has options and commands of its own.
#include "cli/completion.h"
#include "cli/doctor.h"
#include "cli/help.h"
#include "cli/settings.h"
#include "interpreter/run.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iostream>

namespace {

using namespace tracehost::cli;
namespace interpreter = tracehost::interpreter;

constexpr int exit_failure = 1, exit_usage = 2;

// (tracehost-)?python[0-9.]*
bool is_python(const char *argv0) {
  if (argv0 == nullptr)
    return false;
  const char *slash = std::strrchr(argv0, '/');
  std::string_view name = slash == nullptr ? argv0 : slash + 1;
  if (name.starts_with("tracehost-"))
    name.remove_prefix(10);
  return name.starts_with("python") &&
         name.substr(6).find_first_not_of("0123456789.") == std::string_view::npos;
}

int complain(const std::string &message, int code) {
  std::cerr << "tracehost: " << message << std::endl;
  return code;
}

int print(const std::string &text) {
  std::cout << text << std::flush;
  return std::cout ? 0 : exit_failure;
}

// `message` with the command that `word` may mean, and where to look.
std::string suggesting(std::string message, const std::string &word) {
  if (const auto meant = nearest_command(word))
    message += "; did you mean '" + *meant + "'?";
  return message + " (try 'tracehost help')";
}

int show_help(const std::vector<std::string> &words) {
  if (words.empty())
    return print(general_help());
  if (const auto *command = find_command(words.front()))
    return print(command_help(command->command));
  return complain(suggesting("no command '" + words.front() + "'", words.front()), exit_usage);
}

int show_completion(const std::vector<std::string> &words) {
  const auto shell = words.size() == 1 ? words.front() : std::string();
  if (shell == "bash")
    return print(bash_completion());
  if (shell == "zsh")
    return print(zsh_completion());
  if (shell == "fish")
    return print(fish_completion());
  std::string got;
  for (const auto &word : words)
    got += (got.empty() ? ", got '" : " ") + word;
  throw UsageError("'completion' takes bash, zsh or fish" + got + (got.empty() ? "" : "'"));
}

// -P: what lies in the current folder is not taken for a part of the command.
std::vector<std::string> in_python(const Split &line, const Settings &settings) {
  std::vector<std::string> args{"-P", "-X", "faulthandler", "-m", "tracehost_commands"};
  args.emplace_back(entry(line.command).name);
  const auto words = words_for_python(settings);
  args.insert(args.end(), words.begin(), words.end());
  args.emplace_back("--");
  args.insert(args.end(), line.rest.begin(), line.rest.end());
  return args;
}

int command_line(const std::vector<std::string> &args) {
  const auto line = split(args, [](const std::string &path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  });
  if (line.command == Command::help)
    return show_help(line.rest);
  auto settings = parse(line);
  if (settings.help)
    return print(line.named ? command_help(line.command) : general_help());
  if (!line.unknown_word.empty() && !settings.version)
    throw UsageError(suggesting("'" + line.unknown_word + "' is neither a file nor a command",
                                line.unknown_word));
  if (line.command == Command::completion)
    return show_completion(line.rest);
  if (line.command == Command::doctor && !line.rest.empty())
    throw UsageError("'" + std::string(entry(line.command).name) + "' takes no argument '" +
                     line.rest.front() + "'");
  if (line.command == Command::run && !settings.version && line.rest.empty() && ::isatty(0) == 1)
    return print(short_help());

  complete(settings);
  apply(settings);
  const auto *python = settings.find("python");
  std::string trouble;
  const auto environment = interpreter::find_environment(
      settings.text("python"), python == nullptr ? "" : python->origin, trouble);
  if (!environment)
    return complain(trouble, python == nullptr ? exit_failure : exit_usage);
  if (settings.version)
    return print(version_lines(*environment));
  if (line.command == Command::doctor)
    return doctor(*environment, all_settings(settings), settings.is_on("json"));
  const auto words = is_in_python(line.command) ? in_python(line, settings) : line.rest;
  return interpreter::run_program(environment->executable.string(), words);
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 0 && is_python(argv[0]))
    return interpreter::run_as_python(argc, argv);
  try {
    return command_line({argv + 1, argv + argc});
  } catch (const UsageError &error) {
    return complain(error.what(), exit_usage);
  } catch (const std::exception &error) {
    return complain(error.what(), exit_failure);
  }
}
