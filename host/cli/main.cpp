// Two personalities in one binary. As tracehost-python (sys.executable, and what every child
// process runs) it is Python and nothing else. As tracehost it runs programs with options of its
// own, and commands, which are made in Python.
#include "cli/doctor.h"
#include "cli/settings.h"
#include "interpreter/run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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

constexpr const char *short_help =
    "usage: tracehost [OPTION...] SCRIPT [ARG...]\n"
    "       tracehost [OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]\n"
    "       tracehost COMMAND ...\n"
    "\nRuns a Python program as python does. In it, @tracehost.function turns PyTorch\n"
    "functions into cached TorchScript graphs, one for each call signature.\n"
    "\n`tracehost help` says more, `tracehost doctor` checks this installation.\n";

// Which Python a command runs in has to be known before it reads its words.
std::optional<std::string> named_python(const std::vector<std::string> &words) {
  constexpr std::string_view option = "--python";
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i].starts_with("--python="))
      return words[i].substr(option.size() + 1);
    if (words[i] == option && i + 1 < words.size())
      return words[i + 1];
  }
  return std::nullopt;
}

// That of `--python`, else of its variable. If there is none: a message, and the exit code.
std::optional<interpreter::Environment> environment(const std::optional<std::string> &named,
                                                    int &code) {
  const char *variable = std::getenv("TRACEHOST_PYTHON");
  const auto python = absolute(named.value_or(variable == nullptr ? "" : variable));
  if (!python.empty())
    ::setenv("TRACEHOST_PYTHON", python.c_str(), 1);
  std::string trouble;
  auto found =
      interpreter::find_environment(python, named ? "--python" : "TRACEHOST_PYTHON", trouble);
  if (!found)
    code = complain(trouble, python.empty() ? exit_failure : exit_usage);
  return found;
}

// A command that does not start, with a sentence on why.
int fail(const std::string &command, const std::vector<std::string> &words,
         const interpreter::Environment &where, const std::string &why) {
  const bool json = std::ranges::count(words, "--json") > 0;
  if (command == "doctor" && std::ranges::count(words, "--version") == 0)
    return print(checks_without_python(where, why, json)), exit_failure;
  if (command == "misspelt")
    return complain("'" + words[0] + "' is no option, file or command (try 'tracehost help')",
                    exit_usage);
  if (command == "help")
    print(short_help);
  return complain(why + "; 'tracehost doctor' says what is wrong", exit_failure);
}

// A command gets its words as they are. -P: what lies in the current folder is not taken for a part
// of it.
int run_command(const std::string &command, const std::vector<std::string> &words) {
  if (command == "doctor") // shows the variables of a run, which are not for itself
    ::setenv("TRACEHOST_INTERCEPTION_PID", "0", 1);
  else
    leave_out_runs_own();
  if (command == "help" || command == "completion" || command == "misspelt") // of any environment
    ::unsetenv("TRACEHOST_PYTHON");
  int code = 0;
  const auto where = environment(named_python(words), code);
  if (!where)
    return code;
  const std::string version = "-Xtracehost=" TRACEHOST_VERSION;
  std::vector<std::string> args{"-P",
                                "-Xfaulthandler",
                                version,
                                "-Xtracehost-environment=" + where->chosen_by,
                                "-mtracehost_commands",
                                command};
  args.insert(args.end(), words.begin(), words.end());
  const auto failed = [&](const std::string &why) { return fail(command, words, *where, why); };
  // Where Python crashes at its start, somebody has to be left to say so.
  if (const pid_t child = command == "doctor" ? ::fork() : 0; child > 0) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status)
               ? WEXITSTATUS(status)
               : failed("Python ended with signal " + std::to_string(WTERMSIG(status)));
  }
  return interpreter::run_module(where->executable.string(), "tracehost_commands", args, failed);
}

int run(const Split &line) {
  auto settings = parse(line);
  if (settings.help)
    return run_command("help", std::vector(line.command.empty() ? 0 : 1, line.command));
  if (!line.unknown_word.empty() && !settings.version)
    throw Misspelt(line.unknown_word);
  // `--report out.txt train.py`: the file would be taken for the program.
  const auto exists = [](const std::string &path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  };
  if (!line.options.empty() && line.options.back().ends_with("=-") && line.rest.size() > 1 &&
      !exists(line.rest[0]) && exists(line.rest[1])) {
    const std::string &last = line.options.back();
    const auto name = last.substr(0, last.size() - 2);
    throw UsageError("can't open '" + line.rest[0] + "'; '" + name +
                     "' takes its value behind '=': " + name + "=" + line.rest[0]);
  }
  if (!settings.version && line.rest.empty() && ::isatty(0) == 1)
    return print(short_help);
  complete(settings);
  apply(settings);
  const auto *python = settings.find("python");
  std::optional<std::string> named;
  if (python != nullptr && python->origin == "--python")
    named = python->values.front();
  if (settings.version)
    return run_command("doctor", {"--version", named ? "--python=" + *named : "--"});
  int code = 0;
  const auto where = environment(named, code);
  return where ? interpreter::run_program(where->executable.string(), line.rest) : code;
}

int command_line(const std::vector<std::string> &args) {
  if (args.size() == 1 && args.front() == "--options-json")
    return print(options_as_json());
  const auto line = split(args, [](const std::string &path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  });
  if (line.is_program())
    return run(line);
  auto words = line.rest;
  if (line.command != "help") // what stands in front of the command's word
    words.insert(words.begin(), line.options.begin(), line.options.end());
  return run_command(line.command, words);
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 0 && is_python(argv[0]))
    return interpreter::run_as_python(argc, argv);
  try {
    try {
      return command_line({argv + 1, argv + argc});
    } catch (const Misspelt &error) {
      return run_command("misspelt", {error.what()});
    }
  } catch (const UsageError &error) {
    return complain(error.what(), exit_usage);
  } catch (const std::exception &error) {
    return complain(error.what(), exit_failure);
  }
}
