// Settings as the variables of a program, which its children inherit.
#include "cli/settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;

namespace tracehost::cli {
namespace {

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
  const auto form = fs::path(file).extension().string();
  for (const char *known : {"", ".txt", ".html", ".json"})
    if (form == known)
      return;
  throw UsageError("'" + file + "' (" + said_by + ") ends in '" + form +
                   "'; a report is .html, .json or .txt");
}

// --frozen alone is --frozen=tracehost.lock. A lock that is missing is found before the program
// runs.
void find_lock(Given &given) {
  auto &file = given.values.front();
  if (file == "0" || file == "false")
    return;
  if (file == "-" || file == "1" || file == "true")
    file = "tracehost.lock";
  file = absolute(file);
  if (::access(file.c_str(), R_OK) != 0)
    throw UsageError("cannot open '" + file + "' (" + given.origin + "): " + std::strerror(errno) +
                     "; write it with 'tracehost lock SCRIPT'");
}

// What is done at exit, of a run.
bool has_owner(const Option &option) {
  return option.kind == Kind::output || option.name == "max-retraces";
}

// It is done by this process, not by its children: the variable names it.
void apply_owner(const Given &given) {
  const auto name = variable(*given.option);
  const auto owner = name + "_PID";
  const char *above = std::getenv(owner.c_str()); // a host above us set it: that one writes
  if (given.origin == name && above != nullptr && *above != '\0')
    return;
  const auto &file = given.values.front();
  if (given.option->name == "report")
    check_form(file, given.origin);
  if (given.option->kind == Kind::output && file != "-")
    check_writable(file, given.origin);
  set(owner, std::to_string(::getpid()));
}

} // namespace

std::string absolute(const std::string &path) {
  const char *home = path.starts_with("~/") ? std::getenv("HOME") : nullptr;
  const auto text = home == nullptr ? path : home + path.substr(1);
  std::error_code ignored;
  return path == "-" || path.empty() ? path
                                     : fs::absolute(text, ignored).lexically_normal().string();
}

void apply(Settings &settings) {
  // What an option excludes is not to reach the program as a variable.
  for (const auto &option : options())
    if (is_setting(option) && settings.find(option.name) == nullptr)
      ::unsetenv(variable(option).c_str());
  for (auto &given : settings.given) {
    const auto name = variable(*given.option);
    std::string text;
    const bool is_lock = given.option->name == "frozen";
    if (is_lock)
      find_lock(given);
    for (auto &value : given.values) {
      if (!is_lock && (given.option->kind == Kind::file || given.option->kind == Kind::output))
        value = absolute(value);
      text += (text.empty() ? "" : "\n") + value;
    }
    if (has_owner(*given.option))
      apply_owner(given);
    // Only the process that got the option reports what could not be traced; its children do not.
    if ((given.option->name == "trace" || given.option->name == "intercept") &&
        given.origin != name)
      set("TRACEHOST_INTERCEPTION_PID", std::to_string(::getpid()));
    set(name, text);
  }
}

void leave_out_runs_own() {
  for (const auto &option : options())
    if (has_owner(option))
      ::unsetenv(variable(option).c_str());
}

} // namespace tracehost::cli
