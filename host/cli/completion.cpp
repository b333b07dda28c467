#include "cli/completion.h"

#include <algorithm>

namespace tracehost::cli {

std::vector<std::string> spellings(const OptionEntry &option) {
  std::vector<std::string> words{"--" + std::string(option.name)};
  if (option.letter != '\0')
    words.push_back(std::string("-") + option.letter);
  return words;
}

bool takes_next_word(const OptionEntry &option) {
  return option.takes == Takes::value || option.takes == Takes::values;
}

std::string action(const Actions &actions, Kind kind, std::string_view placeholder) {
  switch (kind) {
  case Kind::choice: {
    std::string words(placeholder);
    std::ranges::replace(words, '|', ' ');
    return std::string(actions.before_choices) + words + std::string(actions.after_choices);
  }
  case Kind::command:
    return std::string(actions.command);
  case Kind::notebook:
    return std::string(actions.notebook);
  case Kind::target:
    return std::string(actions.target);
  case Kind::folder:
    return std::string(actions.folder);
  case Kind::file:
  case Kind::output:
  case Kind::program:
    return std::string(actions.file);
  case Kind::none:
  case Kind::text:
  case Kind::whole:
  case Kind::number:
  case Kind::limit:
    break;
  }
  return std::string(actions.nothing);
}

std::string with_flags(std::string text) {
  constexpr std::string_view mark = "@FLAGS@";
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark))
    text.replace(at, mark.size(), python_flags);
  return text;
}

std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string one_line(std::string_view text, std::string_view special) {
  std::string line;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos)
      line += '\\';
    line += c == '\n' ? ' ' : c;
  }
  return line;
}

} // namespace tracehost::cli
