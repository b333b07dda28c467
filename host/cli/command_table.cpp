#include "cli/table.h"

namespace tracehost::cli {
namespace {

constexpr CommandEntry command_table[] = {
    {Command::run, "run",
     "run [OPTION...] SCRIPT [ARG...]\n"
     "run [OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]",
     "run a Python program; the word itself may be left out",
     "As `python SCRIPT`: same output, same exit code, same signals. Options stand\n"
     "before the script; what follows the script belongs to it. Python's own options\n"
     "(-u, -O, -W ARG, -X OPT, -i ...) are taken as well. A script that is named like\n"
     "a command: tracehost run NAME.",
     Kind::program, ""},
    {Command::lock, "lock",
     "lock [OPTION...] SCRIPT [ARG...]\n"
     "lock [OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]",
     "run a program, and write down which signatures it traces",
     "The file has a line for each signature that calls of Functions traced, sorted.\n"
     "Keep it with the source: `tracehost run --frozen` allows these traces, and makes\n"
     "any other an error that names the argument.\n"
     "\n"
     "Exit code: the program's own. A program that failed writes nothing. 1 if the\n"
     "events of the run are lost, 2 if the command line is wrong, or the file cannot\n"
     "be written.",
     Kind::program, ""},
    {Command::notebook, "notebook", "notebook [OPTION...] NOTEBOOK...",
     "run notebooks, and keep what they show",
     "Each NAME.ipynb is run in a fresh kernel, and saved as NAME.out.ipynb: at the\n"
     "start, after every cell and while a cell runs. What cells print is shown as it\n"
     "comes. A table at the end says which cells were traced, and why.\n"
     "A cell tagged `parameters` has the defaults of what -p and -P set.\n"
     "\n"
     "Exit code: 0, or 1 if a cell failed, 2 if something could not be read or\n"
     "written, 3 after too many retraces, 69 if a package is missing, 124 after a\n"
     "timeout, 138 if the kernel died.",
     Kind::notebook, ""},
    {Command::kernel, "kernel", "kernel (install | uninstall | list) [OPTION...]",
     "make Jupyter know tracehost as a kernel",
     "An installed kernel stands beside the others in JupyterLab, and runs by\n"
     "`jupyter execute --kernel_name=tracehost` too.",
     Kind::choice, "install|uninstall|list"},
    {Command::repl, "repl", "repl [OPTION...] [ARG...]", "type Python, line by line",
     "In IPython where it is installed, else in Python's own prompt.", Kind::text, ""},
    {Command::export_, "export", "export [OPTION...] (MODULE | SCRIPT.py):FUNCTION -o OUT",
     "write a function's graphs to an archive",
     "The module or script is imported, and a graph traced for each --signature.\n"
     "With none, the graphs are written that the function has after the import, or\n"
     "that of its input_signature.\n"
     "\n"
     "A signature has the arguments: tensors by dtype and shape, ? for dynamic, and\n"
     "Python literals: --signature 'f32[?,128], i64[], True'.\n"
     "\n"
     "Exit code: 0, or 1 if it cannot be traced or saved, 2 if the command line is\n"
     "wrong, or a file cannot be opened.",
     Kind::target, ""},
    {Command::inspect, "inspect", "inspect [OPTION...] FILE", "show what is in an archive",
     "Its functions with their graphs, by number, and its tensors.\n"
     "\n"
     "Exit code: 0, or 1 if it is no archive, or damaged, 2 if the command line is\n"
     "wrong, or the file cannot be opened.",
     Kind::file, ""},
    {Command::bench, "bench", "bench [OPTION...] (MODULE | SCRIPT.py | ARCHIVE):FUNCTION",
     "time a function's calls against eager and torch.compile",
     "The module or script is imported, and the function called with random tensors\n"
     "of each --signature: f32[32,128], i64[], True. With none, with those of its\n"
     "input_signature.\n"
     "\n"
     "The first call includes the trace or compilation; `pays back` says after how\n"
     "many calls it was worth it. A function of an archive has nothing beside it.\n"
     "\n"
     "Exit code: 0, or 1 if the function raises or cannot be traced, 2 if the command\n"
     "line is wrong, or a file cannot be opened, 3 by --max-regress.",
     Kind::target, ""},
    {Command::report, "report", "report [OPTION...] RUN.jsonl",
     "make a page of a run from what --events wrote",
     "One file without scripts or links: Functions by cost, with the cause, the fix\n"
     "and the marked source of each retrace. A run that was killed has a page, too.\n"
     "\n"
     "Exit code: 0, or 2 if a file cannot be read or written.",
     Kind::file, ""},
    {Command::doctor, "doctor", "doctor [OPTION...]",
     "check the installation; says what to do about what is wrong",
     "One line a check: OK, WARN or FAIL. The exit code is 1 if anything is FAIL.", Kind::none, ""},
    {Command::completion, "completion", "completion (bash | zsh | fish)",
     "print a script by which a shell completes command lines",
     "For this shell, and for good:\n"
     "\n"
     "  bash  source <(tracehost completion bash)      the same line in ~/.bashrc\n"
     "  zsh   source <(tracehost completion zsh)       the same line in ~/.zshrc,\n"
     "                                                 below compinit\n"
     "  fish  tracehost completion fish | source       the same line in\n"
     "                                                 ~/.config/fish/config.fish",
     Kind::choice, "bash|zsh|fish"},
    {Command::help, "help", "help [COMMAND]", "show this, or the help of a command", "",
     Kind::command, ""},
};

} // namespace

std::span<const CommandEntry> commands() { return command_table; }

} // namespace tracehost::cli
