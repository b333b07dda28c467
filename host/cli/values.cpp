#include "cli/values.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;

namespace tracehost::cli {
namespace {

// As Python's int() and float() read them, without spaces and underscores.
bool is_number(const std::string &text, Kind kind) {
  if (text.empty())
    return false;
  const auto digits = text.front() == '+' ? text.substr(1) : text;
  if (kind == Kind::whole)
    return !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  if (text.find_first_of(" \t\nxXpP") != std::string::npos)
    return false;
  char *end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return *end == '\0' && number >= 0; // no NaN
}

bool fits(const OptionEntry &option, const std::string &value) {
  switch (option.kind) {
  case Kind::whole:
  case Kind::number:
    return is_number(value, option.kind);
  case Kind::limit:
    return value == "off" || value == "error" ||
           (is_number(value, Kind::whole) && value.find_first_not_of("+0") != std::string::npos);
  case Kind::choice:
    for (const auto word : choices(option.placeholder))
      if (word == value)
        return true;
    return false;
  default:
    return true;
  }
}

[[noreturn]] void reject(const std::string &said_by, const OptionEntry &option,
                         const std::string &value) {
  throw UsageError(said_by + " takes " + what_it_takes(option) + ", got '" + value + "'");
}

} // namespace

std::string what_it_takes(const OptionEntry &option) {
  if (option.takes == Takes::nothing)
    return "true or false";
  switch (option.kind) {
  case Kind::whole:
    return "a non-negative integer";
  case Kind::number:
    return "a non-negative number";
  case Kind::choice: {
    std::string text;
    const auto words = choices(option.placeholder);
    for (std::size_t i = 0; i < words.size(); ++i)
      text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
    return text;
  }
  case Kind::limit:
    return "a whole number from 1 on, off or error";
  case Kind::file:
  case Kind::output:
    return option.takes == Takes::optional_value ? "a path, or true or false" : "a path";
  case Kind::folder:
    return "the path of a folder";
  default:
    return "a text";
  }
}

void check_values(Given &given, const std::string &said_by) {
  for (auto &value : given.values) {
    if (given.is_flag() && (value == "1" || value == "0"))
      value = value == "1" ? "true" : "false";
    const bool fine =
        given.is_flag() ? value == "true" || value == "false" : fits(*given.option, value);
    if (!fine)
      reject(said_by, *given.option, value);
  }
}

void make_absolute(Given &given) {
  const auto kind = given.option->kind;
  if (kind != Kind::file && kind != Kind::output && kind != Kind::folder)
    return;
  std::error_code ignored;
  for (auto &value : given.values) {
    if (value == "-" || value.empty())
      continue;
    if (value.starts_with("~/"))
      if (const char *home = std::getenv("HOME"))
        value = home + value.substr(1);
    value = fs::absolute(value, ignored).lexically_normal().string();
  }
}

} // namespace tracehost::cli
