#include "cli/split.h"

#include <string_view>

namespace tracehost::cli {
namespace {

// Long options that are CPython's; all but one take no value.
bool is_pythons_long_option(std::string_view name) {
  return name == "help-env" || name == "help-xoptions" || name == "help-all" ||
         name == "check-hash-based-pycs";
}

// A bare word cannot be a script that was merely mistyped: those have a dot or a slash.
bool is_bare_word(std::string_view word) {
  return word.find_first_of("./") == std::string_view::npos && !word.empty();
}

// What the option says where it has no value: `--eager=true`, `--report=-`.
const char *default_value(const Option &option) {
  if (option.takes == Takes::optional_value)
    return "=-";
  return option.takes == Takes::nothing && is_setting(option) ? "=true" : "";
}

class Splitter {
public:
  Splitter(const std::vector<std::string> &args,
           const std::function<bool(const std::string &)> &exists)
      : args_(args), exists_(exists) {}

  Split result() {
    while (at_ < args_.size() && step()) {
    }
    split_.rest.insert(split_.rest.end(), args_.begin() + static_cast<std::ptrdiff_t>(at_),
                       args_.end());
    return split_;
  }

private:
  // One word; false when all that is left belongs to others (or cannot be understood).
  bool step() {
    const std::string &word = args_[at_];
    if (word == "--")
      return false; // Python reads its own
    if (word.starts_with("--"))
      return long_option(word);
    return word.starts_with("-") && word.size() > 1 ? short_options(word) : first_word(word);
  }

  bool long_option(const std::string &word) {
    const auto equals = word.find('=');
    const auto name = std::string_view(word).substr(2, equals - 2);
    if (is_pythons_long_option(name)) {
      take_rest();
      if (name == "check-hash-based-pycs" && at_ < args_.size())
        take_rest();
      return true;
    }
    split_.options.push_back(word);
    ++at_;
    const auto *option = find_option(name);
    if (option == nullptr) { // whether it has a value cannot be known: the parser reports it
      at_ = args_.size();
      return false;
    }
    const bool wants_value = option->takes == Takes::value || option->takes == Takes::values;
    if (equals == std::string::npos && !wants_value)
      split_.options.back() += default_value(*option);
    else if (equals == std::string::npos && at_ < args_.size())
      split_.options.back() += "=" + args_[at_++]; // what it begins with does not matter
    return true;
  }

  // A cluster of Python's short options, such as -Bu or -Wignore. Behind -c and -m Python reads no
  // further options; -W and -X may have their value in the next word.
  bool short_options(const std::string &word) {
    const auto at = word.find_first_of("cmWX", 1);
    if (at != std::string::npos && (word[at] == 'c' || word[at] == 'm'))
      return false;
    take_rest();
    if (at != std::string::npos && at + 1 == word.size() && at_ < args_.size())
      take_rest();
    return true;
  }

  // Behind an option of Python's a word can only be the program, as Python has it. Options of the
  // host may stand on both sides of `run`.
  bool first_word(const std::string &word) {
    if (!split_.command.empty() || !split_.rest.empty() || word == "-")
      return false;
    if (is_command(word)) {
      split_.command = word;
      ++at_;
      return split_.is_program();
    }
    if (is_bare_word(word) && !exists_(word))
      split_.unknown_word = word;
    return false;
  }

  void take_rest() { split_.rest.push_back(args_[at_++]); }

  const std::vector<std::string> &args_;
  const std::function<bool(const std::string &)> &exists_;
  std::size_t at_ = 0;
  Split split_;
};

} // namespace

Split split(const std::vector<std::string> &args,
            const std::function<bool(const std::string &)> &exists) {
  return Splitter(args, exists).result();
}

} // namespace tracehost::cli
