// The options of a command line, by Boost.Program_options.
#include "cli/settings.h"

#include <boost/program_options.hpp>

namespace po = boost::program_options;

namespace tracehost::cli {
namespace {

po::options_description description(Command command) {
  po::options_description known;
  for (const OptionEntry &option : options_of(command)) {
    const auto name = std::string(option.name);
    if (!is_setting(option))
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

// `--inplace` says `--inplace=true`.
std::vector<std::string> with_values(const Split &split) {
  auto words = split.host_options;
  for (auto &word : words) {
    const auto *option =
        word.starts_with("--") ? find_option(word.substr(2), split.command) : nullptr;
    if (option != nullptr && option->takes == Takes::nothing && is_setting(*option))
      word += "=true";
  }
  return words;
}

void add(std::vector<Given> &given, const OptionEntry &option, Command command,
         const std::vector<std::string> &values) {
  for (auto &known : given)
    if (known.option == &option) {
      known.values.insert(known.values.end(), values.begin(), values.end());
      return;
    }
  given.push_back({&option, is_shared(option) ? Command::run : command, values,
                   "--" + std::string(option.name)});
}

} // namespace

Settings parse(const Split &split) {
  Settings settings;
  settings.command = split.command;
  try {
    const auto known = description(split.command);
    const auto words = with_values(split);
    po::command_line_parser parser(words);
    parser.options(known).positional(po::positional_options_description());
    parser.style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing);
    const auto found = parser.run();
    po::variables_map values;
    po::store(found, values); // says what is given twice
    for (const auto &word : found.options) {
      const auto &option = *find_option(word.string_key, split.command);
      if (is_setting(option))
        add(settings.given, option, split.command, word.value);
    }
    settings.version = values.count("version") > 0;
    settings.help = values.count("help") > 0;
  } catch (const po::unknown_option &error) {
    throw UsageError(unknown_option(error.get_option_name(), split.command));
  } catch (const po::error &error) {
    throw UsageError(error.what() + see_help(split.command));
  }
  if (!settings.help)
    for (auto &given : settings.given)
      check_values(given, given.origin);
  return settings;
}

} // namespace tracehost::cli
