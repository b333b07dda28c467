#include "cli/completion.h"

#include <sstream>

namespace tracehost::cli {
namespace {

// Files and folders are left to bash itself, which knows of quotes and tildes.
constexpr Actions kBashActions{.before_choices = "_tracehost_words '",
                               .after_choices = "'",
                               .command = "_tracehost_words \"$_tracehost_commands\"",
                               .notebook = "_tracehost_files ipynb",
                               .target = "_tracehost_files py",
                               .folder = "_tracehost_compopt dirnames",
                               .file = "_tracehost_compopt default",
                               .nothing = ":"};

// The alternatives of a `case`: 'notebook --output' | 'notebook -o'
std::string pattern(const OptionEntry &option, const CommandEntry &command) {
  std::string text;
  for (const auto &word : spellings(option))
    text += (text.empty() ? "'" : " | '") + std::string(command.name) + " " + word + "'";
  return text;
}

std::string offered(const CommandEntry &command) {
  std::string words;
  for (const OptionEntry &option : options_of(command.command)) {
    for (const auto &word : spellings(option))
      words += (words.empty() ? "" : " ") + word;
    if (option.takes == Takes::optional_value)
      words += " --" + std::string(option.name) + "=";
  }
  return words;
}

template <typename Each> void each_option(const Each &each) {
  for (const auto &command : commands())
    for (const OptionEntry &option : options_of(command.command))
      each(option, command);
}

constexpr const char *helpers = R"(
# compgen's matches for what is typed so far
_tracehost_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$typed")
  [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || _tracehost_compopt nospace
}

_tracehost_files() {
  mapfile -t COMPREPLY < <(compgen -f -X "!*.$1" -- "$typed")
  _tracehost_compopt filenames
  _tracehost_compopt plusdirs
}

_tracehost_compopt() { compopt -o "$1"; }
)";

constexpr const char *walk = R"(
_tracehost() {
  local words=() word glued='' typed at='' command=run named='' behind='' skip='' i
  COMPREPLY=()
  # bash splits at = and : what is one word to us
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ -n $glued || (${#words[@]} -gt 0 && $word == [=:]*) ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    glued=
    [[ $word == *[=:] ]] && glued=1
  done
  typed=${words[-1]}
  unset 'words[-1]'

  for word in "${words[@]}"; do
    if [[ -n $skip ]]; then
      skip=
    elif [[ $behind == program ]]; then
      break
    elif _tracehost_has_value "$command $word"; then
      skip=$word
    elif [[ $command == run || $command == lock ]]; then
      if [[ $word == -- || $word == - || $word =~ ^-[@FLAGS@]*[cm] ]]; then
        behind=program
      elif [[ $word == --check-hash-based-pycs || $word =~ ^-[@FLAGS@]*[WX]$ ]]; then
        skip=python at=1
      elif [[ $word == --* ]]; then
        :
      elif [[ $word == -* ]]; then
        at=1
      elif [[ -z $named$at && " $_tracehost_commands " == *" $word "* ]]; then
        command=$word named=1
      else
        behind=program
      fi
    elif [[ $word == -- ]]; then
      behind=options
    fi
  done

  if [[ $behind == program || $skip == python ]]; then
    _tracehost_compopt bashdefault
    _tracehost_compopt default
  elif [[ -n $skip ]]; then
    _tracehost_value "$command $skip"
  elif [[ -z $behind && $typed == --*=* ]]; then
    word=${typed%%=*}
    typed=${typed#*=}
    _tracehost_value "$command $word"
    [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$word=}")
  elif [[ -z $behind && $typed == -* ]]; then
    _tracehost_offer
  elif [[ $command == run && -z $named ]]; then
    [[ -n $at ]] || _tracehost_words "$_tracehost_commands"
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -X '!*.py' -- "$typed")
    _tracehost_compopt filenames
    _tracehost_compopt plusdirs
    _tracehost_compopt default
  else
    _tracehost_word
  fi
}

complete -F _tracehost tracehost
)";

} // namespace

std::string bash_completion() {
  std::ostringstream out;
  out << "# bash completion of tracehost, made by `tracehost completion bash`\n\n"
      << "_tracehost_commands='";
  for (const auto &command : commands())
    out << (&command == commands().data() ? "" : " ") << command.name;
  out << "'\n" << helpers;

  out << "\n# whether the value of `command option` may be the next word\n"
         "_tracehost_has_value() {\n  case $1 in\n";
  each_option([&](const OptionEntry &option, const CommandEntry &command) {
    if (takes_next_word(option))
      out << "    " << pattern(option, command) << ") return 0 ;;\n";
  });
  out << "  esac\n  return 1\n}\n\n_tracehost_value() {\n  case $1 in\n";
  each_option([&](const OptionEntry &option, const CommandEntry &command) {
    if (const auto what = action(kBashActions, option.kind, option.placeholder); what != ":")
      out << "    " << pattern(option, command) << ") " << what << " ;;\n";
  });
  out << "  esac\n}\n\n_tracehost_offer() {\n  case $command in\n";
  for (const auto &command : commands())
    if (const auto words = offered(command); !words.empty())
      out << "    " << command.name << ") _tracehost_words '" << words << "' ;;\n";
  out << "  esac\n}\n\n_tracehost_word() {\n  case $command in\n";
  for (const auto &command : commands())
    if (const auto what = action(kBashActions, command.words, command.choices); what != ":")
      out << "    " << command.name << ") " << what << " ;;\n";
  out << "  esac\n}\n" << with_flags(walk);
  return out.str();
}

} // namespace tracehost::cli
