#include "archive/source_line.h"

#include "archive/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace tracehost::archive {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}
bool is_octal(char c) { return c >= '0' && c <= '7'; }

} // namespace

bool is_keyword(std::string_view name) {
  constexpr std::array<std::string_view, 35> all = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  return std::ranges::find(all, name) != all.end();
}

bool SourceLine::take(std::string_view text) {
  if (!rest_.starts_with(text))
    return false;
  rest_.remove_prefix(text.size());
  return true;
}

void SourceLine::expect(std::string_view text) {
  if (!take(text))
    wrong(fmt::format("has no '{}' where one is", text));
}

void SourceLine::end() const {
  if (!rest_.empty())
    wrong("continues behind its end");
}

std::string_view SourceLine::name() {
  std::size_t size = 0;
  while (size < rest_.size() && is_name(rest_[size]) && !(size == 0 && is_digit(rest_[0])))
    ++size;
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::string_view SourceLine::need_name() {
  const std::string_view taken = name();
  if (taken.empty())
    wrong("has no name where one is");
  return taken;
}

bool SourceLine::string() {
  if (!take("\""))
    return false;
  while (!take("\"")) {
    if (rest_.empty() || rest_[0] < ' ' || rest_[0] > '~')
      wrong("has a string with other characters");
    const bool escape = take("\\");
    if (rest_.empty())
      wrong("has a string that does not end");
    if (!escape) {
      rest_.remove_prefix(1);
      continue;
    }
    if (is_octal(rest_[0])) {
      if (rest_.size() < 3 || rest_[0] > '3' || !is_octal(rest_[1]) || !is_octal(rest_[2]))
        wrong("has a string with another escape");
      rest_.remove_prefix(3);
      continue;
    }
    if (std::string_view("abfnrtv\"'\\?").find(rest_[0]) == std::string_view::npos)
      wrong("has a string with another escape");
    rest_.remove_prefix(1);
  }
  return true;
}

std::string_view SourceLine::digits() {
  std::size_t size = 0;
  while (size < rest_.size() && is_digit(rest_[size]))
    ++size;
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

bool SourceLine::unsigned_number(bool &real) {
  real = true;
  if (take("infj") || take("nanj") || take("inf") || take("nan"))
    return true;
  const std::string_view whole = digits();
  real = false;
  if (whole.empty())
    return false;
  if (take(".")) {
    digits();
    real = true;
  }
  if (rest_.starts_with("e-") || rest_.starts_with("e+")) {
    rest_.remove_prefix(2);
    if (digits().empty())
      wrong("has a number that does not end");
    real = true;
  }
  return true;
}

std::optional<SourceLine::Number> SourceLine::number() {
  const std::string_view begin = rest_;
  const bool minus = take("-");
  // A name may begin as `inf` does.
  const std::string_view after = rest_;
  if (const std::string_view word = name(); !word.empty()) {
    rest_ = after;
    if (word != "inf" && word != "nan" && word != "infj" && word != "nanj") {
      rest_ = begin;
      if (minus)
        wrong("has '-' before what is no number");
      return std::nullopt;
    }
  }
  bool real = false;
  if (!unsigned_number(real)) {
    if (minus)
      wrong("has '-' before what is no number");
    return std::nullopt;
  }
  const std::string_view text = begin.substr(0, begin.size() - rest_.size());
  const bool imaginary = take("j");
  if (!imaginary && (at("+") || at("-"))) { // the second part of a complex number
    rest_.remove_prefix(1);
    if (!unsigned_number(real) ||
        (!take("j") && !begin.substr(0, begin.size() - rest_.size()).ends_with("j")))
      wrong("has a sum");
    return Number{};
  }
  if (!rest_.empty() && is_name(rest_[0]))
    wrong("has a number that does not end");
  Number made;
  if (!real && !imaginary) {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size())
      wrong("has an integer that is too large");
    made.integer = value;
  }
  return made;
}

void SourceLine::wrong(std::string_view what) const {
  wrong_file(fmt::format("line {} of its source {}", number_, what));
}

} // namespace tracehost::archive
