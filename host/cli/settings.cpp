// Options by Boost.Program_options, variables, and the checks of both.
#include "cli/settings.h"

#include <boost/program_options.hpp>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace po = boost::program_options;

namespace tracehost::cli {
namespace {

constexpr const char *see_help = "try 'tracehost help run'";

po::options_description description() {
  po::options_description known;
  for (const auto &option : options()) {
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

// As Python's int() reads it, without spaces and underscores.
bool is_whole(const std::string &text) {
  const auto digits = text.starts_with('+') ? text.substr(1) : text;
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
}

bool fits(const Option &option, const std::string &value) {
  switch (option.kind) {
  case Kind::none:
    return value == "true" || value == "false";
  case Kind::whole:
    return is_whole(value);
  case Kind::limit:
    return value == "off" || value == "error" ||
           (is_whole(value) && value.find_first_not_of("+0") != std::string::npos);
  case Kind::choice:
    return std::ranges::count(choices(option), value) > 0;
  default:
    return true;
  }
}

void check_values(Given &given) {
  for (auto &value : given.values) {
    if (given.option->kind == Kind::none && (value == "1" || value == "0"))
      value = value == "1" ? "true" : "false";
    if (!fits(*given.option, value))
      throw UsageError(given.origin + " takes " + what_it_takes(*given.option) + ", got '" + value +
                       "'");
  }
}

bool excludes(const Given &a, const Option &b) {
  const bool is_off = a.option->takes == Takes::nothing && a.values.front() == "false";
  return !is_off && !a.option->group.empty() && a.option->group == b.group;
}

std::vector<std::string> lines_of(const std::string &text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty())
      result.push_back(line);
  return result;
}

} // namespace

const Given *Settings::find(std::string_view name) const {
  const auto found =
      std::ranges::find(given, name, [](const Given &one) { return one.option->name; });
  return found == given.end() ? nullptr : &*found;
}

Settings parse(const Split &split) {
  Settings settings;
  try {
    const auto known = description();
    po::command_line_parser parser(split.options);
    parser.options(known).positional(po::positional_options_description());
    parser.style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing);
    const auto found = parser.run();
    po::variables_map values;
    po::store(found, values); // says what is given twice
    for (const auto &word : found.options) {
      const auto *option = find_option(word.string_key);
      if (!is_setting(*option))
        continue;
      if (settings.find(option->name) == nullptr)
        settings.given.push_back({option, {}, "--" + word.string_key});
      auto &all = std::ranges::find(settings.given, option, &Given::option)->values;
      all.insert(all.end(), word.value.begin(), word.value.end());
    }
    settings.version = values.count("version") > 0;
    settings.help = values.count("help") > 0;
  } catch (const po::unknown_option &error) {
    const auto shown = error.get_option_name();
    throw Misspelt(shown.substr(0, shown.find('=')));
  } catch (const po::error &error) {
    throw UsageError(std::string(error.what()) + "; " + see_help);
  }
  if (!settings.help)
    std::ranges::for_each(settings.given, check_values);
  return settings;
}

void complete(Settings &settings) {
  const auto said = settings.given;
  for (const auto &option : options()) {
    const auto name = variable(option);
    const char *text = std::getenv(name.c_str());
    if (!is_setting(option) || text == nullptr || *text == '\0' ||
        std::ranges::any_of(said, [&](const Given &other) {
          return other.option == &option || excludes(other, option);
        }))
      continue;
    Given given{&option, {text}, name};
    if (option.takes == Takes::values)
      given.values = lines_of(text);
    check_values(given);
    settings.given.push_back(std::move(given));
  }
}

} // namespace tracehost::cli
