// Scripts by which shells complete command lines, made from the table.
//
// Each script finds the kind of the word as split() does: an option of tracehost, an option's
// value, a word of a command, or a word behind a script. Behind a script, files are completed as
// for any other program. The script needs no host process, so a press of Tab starts none.
#pragma once

#include "cli/table.h"

#include <string>

namespace tracehost::cli {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

// CPython's own short options, as far as they matter to where a script begins.
constexpr std::string_view python_flags = "bBdEhiIOPqsSuvVx";

// A script's text with these in place of each `@FLAGS@`.
std::string with_flags(std::string text);

// `--name`, and `-x` where it has a letter.
std::vector<std::string> spellings(const OptionEntry &option);
// Whether its value may be the next word.
bool takes_next_word(const OptionEntry &option);

// The shell's code that completes a word of each kind.
struct Actions {
  std::string_view before_choices, after_choices; // around the words of a fixed choice
  std::string_view command, notebook, target, folder, file, nothing;
};
std::string action(const Actions &actions, Kind kind, std::string_view placeholder);

// In single quotes, as bash, zsh and sh read it.
std::string shell_quoted(std::string_view text);

// A summary in one line, with a backslash in front of each of `special`.
std::string one_line(std::string_view text, std::string_view special);

} // namespace tracehost::cli
