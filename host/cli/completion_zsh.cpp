#include "cli/completion.h"

#include <sstream>

namespace tracehost::cli {
namespace {

constexpr Actions kZshActions{.before_choices = "(",
                              .after_choices = ")",
                              .command = "_tracehost_commands",
                              .notebook = "_files -g \"*.ipynb\"",
                              .target = "_files -g \"*.py\"",
                              .folder = "_files -/",
                              .file = "_files",
                              .nothing = " "};

// For _arguments: one specification a spelling, each of which rules the other one out.
std::string specifications(const OptionEntry &option) {
  const auto words = spellings(option);
  std::string lead = option.takes == Takes::values ? "*" : "", result;
  if (words.size() > 1 && option.takes != Takes::values)
    lead = "(" + words[0] + " " + words[1] + ")";
  for (const auto &word : words) {
    const bool is_long = word.starts_with("--");
    auto text = lead + word;
    if (option.takes == Takes::optional_value)
      text += "=-";
    else if (option.takes != Takes::nothing)
      text += is_long ? "=" : "+";
    text += "[" + one_line(option.summary, "[]:\\") + "]";
    if (option.takes != Takes::nothing)
      text += std::string(option.takes == Takes::optional_value ? "::" : ":") +
              one_line(option.kind == Kind::choice ? option.name : option.placeholder, ":") + ":" +
              action(kZshActions, option.kind, option.placeholder);
    result += " \\\n        " + shell_quoted(text);
  }
  return result;
}

std::string specifications(Command command) {
  std::string result;
  for (const OptionEntry &option : options_of(command))
    result += specifications(option);
  return result;
}

std::string python_specifications() {
  std::string result = " \\\n       ";
  for (const char letter : python_flags)
    result += std::string(" '*-") + letter + "'";
  return result +
         " \\\n        '*-W+:filter: ' '*-X+:option: ' '*--check-hash-based-pycs=:when:(always "
         "default never)' \\\n        '-c+:code: :*::argument:_default' "
         "'-m+:module: :*::argument:_default'";
}

} // namespace

std::string zsh_completion() {
  std::ostringstream out;
  out << "#compdef tracehost\n"
         "# zsh completion of tracehost, made by `tracehost completion zsh`\n\n"
         "_tracehost_commands() {\n  local -a commands=(\n";
  for (const auto &command : commands())
    out << "    " << shell_quoted(std::string(command.name) + ":" + one_line(command.summary, ":"))
        << '\n';
  out << "  )\n  _describe -t commands command commands\n}\n\n"
         "_tracehost() {\n  local curcontext=$curcontext state line ret=1\n"
         "  typeset -A opt_args\n"
         "  _arguments -s -C -A '-*'"
      << specifications(Command::run) << python_specifications()
      << " \\\n        ': :->first' '*:: :->rest' && ret=0\n"
         "  case $state in\n"
         "    first) # behind an option of Python's a word is a script\n"
         "      [[ -n ${(M)words[2,CURRENT-1]:#-[^-]*} ]] || _tracehost_commands && ret=0\n"
         "      _files -g '*.py' && ret=0\n      "
         ";;\n"
         "    rest)\n      curcontext=${curcontext%:*:*}:tracehost-$words[1]:\n"
         "      case $words[1] in\n";
  for (const auto &command : commands()) {
    out << "      " << command.name << ")\n        _arguments -s";
    if (command.words == Kind::program)
      out << " -A '-*'" << specifications(command.command) << python_specifications()
          << " \\\n        ':script:_files' '*::argument:_default'";
    else
      out << specifications(command.command);
    if (command.words == Kind::notebook || command.words == Kind::text)
      out << " \\\n        "
          << shell_quoted(
                 "*:" + std::string(command.words == Kind::text ? "argument" : "notebook") + ":" +
                 action(kZshActions, command.words, command.choices));
    else if (command.words != Kind::none && command.words != Kind::program)
      out << " \\\n        "
          << shell_quoted(":word:" + action(kZshActions, command.words, command.choices));
    out << " && ret=0\n        ;;\n";
  }
  out << "      *) _default && ret=0 ;;\n      esac\n      ;;\n  esac\n  return ret\n}\n\n"
         "# loaded from a folder of fpath, or read by `source`\n"
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _tracehost \"$@\"\nelse\n"
         "  compdef _tracehost tracehost\nfi\n";
  return out.str();
}

} // namespace tracehost::cli
