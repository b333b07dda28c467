#include "cli/completion.h"

#include <sstream>

namespace tracehost::cli {
namespace {

std::string quoted(std::string_view text) { return "'" + one_line(text, "'\\") + "'"; }

// Files are offered where nothing is said.
constexpr Actions kFishActions{.before_choices = " -f -a '",
                               .after_choices = "'",
                               .command = " -f -a \"$__tracehost_names\"",
                               .notebook = " -f -a '(__fish_complete_suffix .ipynb)'",
                               .target = " -f -a '(__fish_complete_suffix .py)'",
                               .folder = " -f -a '(__fish_complete_directories)'",
                               .file = "",
                               .nothing = " -f"};

// A condition: the cursor is where these commands' options and words stand.
std::string at(unsigned commands_of) {
  std::string places;
  for (const auto &command : commands())
    if ((commands_of & bit(command.command)) != 0)
      places += (command.command == Command::run ? " start " : " ") + std::string(command.name);
  return "complete -c tracehost -n '__tracehost_at" + places + "'";
}

std::string complete_option(const OptionEntry &option) {
  auto line = at(option.commands) + " -l " + std::string(option.name);
  if (option.letter != '\0')
    line += std::string(" -s ") + option.letter;
  if (takes_next_word(option))
    line += " -r" + action(kFishActions, option.kind, option.placeholder);
  return line + " -d " + quoted(option.summary) + "\n";
}

constexpr const char *where = R"(
# whether the cursor is at one of these places: start (a command may come), that of a command, program
function __tracehost_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l place start
    while set -q words[1]
        set -l word $words[1]
        set -e words[1]
        if contains -- "$place $word" $__tracehost_with_value
            set -q words[1]; and set -e words[1]
        else if not contains -- $place start run lock
            continue
        else if string match -qr -- '^--?$|^-[@FLAGS@]*[cm]' $word
            set place program
            break
        else if string match -qr -- '^--check-hash-based-pycs$|^-[@FLAGS@]*[WX]$' $word
            test $place = lock; or set place run
            set -q words[1]; and set -e words[1]
        else if string match -qr -- '^--' $word
            continue
        else if string match -qr -- '^-' $word
            test $place = lock; or set place run
        else if test $place = start; and contains -- $word $__tracehost_names
            set place $word
        else
            set place program
            break
        end
    end
    contains -- $place $argv
end

)";

} // namespace

std::string fish_completion() {
  std::ostringstream out;
  out << "# fish completion of tracehost, made by `tracehost completion fish`\n\n"
         "set -g __tracehost_names";
  for (const auto &command : commands())
    out << ' ' << command.name;
  out << "\nset -g __tracehost_with_value";
  for (const auto &command : commands())
    for (const OptionEntry &option : options_of(command.command))
      if (takes_next_word(option))
        for (const auto &word : spellings(option)) {
          out << " \\\n    '" << command.name << ' ' << word << '\'';
          if (command.command == Command::run)
            out << " 'start " << word << '\'';
        }
  out << '\n' << with_flags(where);
  for (const auto &command : commands())
    out << "complete -c tracehost -n '__tracehost_at start' -a " << command.name << " -d "
        << quoted(command.summary) << '\n';
  for (const auto &option : options())
    out << complete_option(option);
  for (const auto &command : commands())
    if (const auto what = action(kFishActions, command.words, command.choices);
        !what.empty() && command.command != Command::run)
      out << at(bit(command.command)) << what << '\n';
  return out.str();
}

} // namespace tracehost::cli
