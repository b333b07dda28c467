#include "cli/settings.h"

#include <boost/program_options.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;
namespace po = boost::program_options;

namespace tracehost::cli {
namespace {

po::options_description description(Command command) {
  po::options_description known;
  for (const auto &option : options()) {
    if (!applies(option, command))
      continue;
    const auto name = std::string(option.name);
    if (option.takes == Takes::nothing)
      known.add_options()(name.c_str(), "");
    else if (option.takes == Takes::values)
      known.add_options()(name.c_str(), po::value<std::vector<std::string>>(), "");
    else
      known.add_options()(name.c_str(), po::value<std::string>(), "");
  }
  return known;
}

std::string see_help(Command command) {
  return "; try 'tracehost help " + std::string(entry(command).name) + "'";
}

std::string unknown_option(const std::string &shown, Command command) {
  const auto name = shown.substr(0, shown.find('=')).substr(shown.find_first_not_of('-'));
  if (!shown.starts_with("--"))
    return "unknown option '" + shown + "' (" + see_help(command).substr(2) + ")";
  if (const auto *known = find_option(name, command); known != nullptr)
    return "option '--" + name + "' does not apply to '" + std::string(entry(command).name) + "'" +
           see_help(command);
  std::string message = "unknown option '--" + name + "'";
  if (const auto meant = nearest_option(name, command))
    message += "; did you mean '--" + *meant + "'?";
  return message + " (" + see_help(command).substr(2) + ")";
}

void set(const char *name, const std::string &value) { ::setenv(name, value.c_str(), 1); }

std::string get(const char *name) {
  const char *value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Found out before the program runs: after an hour of training it would be too late.
void check_writable(const std::string &file, const std::string &said_by) {
  const bool was_there = ::access(file.c_str(), F_OK) == 0;
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0)
    throw UsageError("cannot write the report to '" + file + "' (" + said_by + "): " +
                     std::strerror(errno) + "; name a file in a directory you can write to");
  ::close(descriptor);
  if (!was_there)
    ::unlink(file.c_str());
}

// What Python gets of the options: not those that are settled here.
std::vector<std::string> words_for_python(const std::vector<po::option> &options) {
  std::vector<std::string> words;
  for (const auto &option : options) {
    const auto &name = option.string_key;
    if (name == "python" || name == "help")
      continue;
    words.push_back("--" + name + (option.value.empty() ? "" : "=" + option.value.front()));
  }
  return words;
}

void apply_report(Settings &settings) {
  const bool given = !settings.report.empty();
  // Set by a host above us: that one prints, not its children.
  if (!given && !get("TRACEHOST_REPORT_PID").empty())
    return;
  if (!given)
    settings.report = get("TRACEHOST_REPORT");
  if (settings.report.empty())
    return;
  if (settings.report != "-") {
    std::error_code ignored;
    settings.report = fs::absolute(settings.report, ignored).lexically_normal().string();
    check_writable(settings.report, given ? "--report" : "TRACEHOST_REPORT");
  }
  set("TRACEHOST_REPORT", settings.report);
  set("TRACEHOST_REPORT_PID", std::to_string(::getpid()));
}

} // namespace

Settings parse(const Split &split) {
  Settings settings;
  po::variables_map values;
  try {
    const auto known = description(split.command);
    po::command_line_parser parser(split.host_options);
    parser.options(known).positional(po::positional_options_description());
    parser.style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing);
    const auto found = parser.run();
    po::store(found, values);
    if (is_in_python(split.command))
      settings.command = words_for_python(found.options);
  } catch (const po::unknown_option &error) {
    throw UsageError(unknown_option(error.get_option_name(), split.command));
  } catch (const po::error &error) {
    throw UsageError(error.what() + see_help(split.command));
  }
  const auto text = [&](const char *name) {
    return values.count(name) ? values[name].as<std::string>() : std::string();
  };
  settings.report = text("report");
  settings.python = text("python");
  settings.version = values.count("version") > 0;
  settings.help = values.count("help") > 0;
  return settings;
}

void apply(Settings &settings) {
  if (settings.python.empty()) {
    settings.python = get("TRACEHOST_PYTHON");
  } else {
    std::error_code ignored;
    settings.python = fs::absolute(settings.python, ignored).lexically_normal().string();
    set("TRACEHOST_PYTHON", settings.python);
  }
  apply_report(settings);
}

} // namespace tracehost::cli
