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
  // One word; false when all that is left belongs to Python (or cannot be understood).
  bool step() {
    const std::string &word = args_[at_];
    if (word == "--") {
      at_ += runs_program(split_.command) ? 0 : 1; // Python reads its own
      return false;
    }
    if (word.starts_with("--") && word.size() > 2)
      return long_option(word);
    if (word.starts_with("-") && word.size() > 1)
      return runs_program(split_.command) ? short_options(word) : own_letter(word);
    return first_word(word);
  }

  bool long_option(const std::string &word) {
    const auto equals = word.find('=');
    const auto name = std::string_view(word).substr(2, equals - 2);
    if (is_pythons_long_option(name) && runs_program(split_.command)) {
      take_rest();
      if (name == "check-hash-based-pycs" && at_ < args_.size())
        take_rest();
      return true;
    }
    const auto *option = find_option(name, split_.command);
    const bool bare_optional =
        option != nullptr && option->takes == Takes::optional_value && equals == std::string::npos;
    split_.host_options.push_back(bare_optional ? word + "=-" : word);
    ++at_;
    if (option == nullptr) // whether it has a value cannot be known: the parser reports it
      return take_all_as_unknown();
    const bool wants_value = option->takes == Takes::value || option->takes == Takes::values;
    if (wants_value && equals == std::string::npos && at_ < args_.size())
      join(args_[at_++]);
    return true;
  }

  // The value in one word with the option: what it begins with does not matter then.
  void join(const std::string &value) { split_.host_options.back() += "=" + value; }

  // -j4 or -j 4, of a command with letters.
  bool own_letter(const std::string &word) {
    const auto *option = find_letter(word[1], split_.command);
    if (option == nullptr)
      return split_.host_options.push_back(word), take_all_as_unknown();
    split_.host_options.push_back("--" + std::string(option->name));
    ++at_;
    if (option->takes == Takes::nothing && word.size() > 2)
      split_.host_options.back() = word; // -fo: said to be unknown
    else if (word.size() > 2)
      join(word.substr(2));
    else if (option->takes != Takes::nothing && at_ < args_.size())
      join(args_[at_++]);
    return true;
  }

  bool take_all_as_unknown() {
    at_ = args_.size();
    return false;
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

  bool first_word(const std::string &word) {
    if (!runs_program(split_.command))
      return take_rest();
    // Behind an option of Python's a word can only be the program, as Python has it.
    if (!split_.named && split_.rest.empty() && word != "-") {
      if (const auto *command = find_command(word)) {
        split_.command = command->command;
        split_.named = true;
        ++at_;
        return true;
      }
      if (is_bare_word(word) && !exists_(word))
        split_.unknown_word = word;
    }
    return false;
  }

  bool take_rest() {
    split_.rest.push_back(args_[at_++]);
    return true;
  }

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
