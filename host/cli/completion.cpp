#include "cli/completion.h"

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
