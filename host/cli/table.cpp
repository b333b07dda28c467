#include "cli/table.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tracehost::cli {
namespace {

constexpr CommandEntry command_table[] = {
    {Command::run, "run",
     "run [OPTION...] SCRIPT [ARG...]\n"
     "run [OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]",
     "run a Python program; the word itself may be left out",
     "As `python SCRIPT`: same output, same exit code, same signals. Options stand before the "
     "script;\n"
     "what follows the script belongs to it. Python's own options (-u, -O, -W ARG, -X OPT, -i "
     "...)\n"
     "are taken as well. A script that is named like a command: tracehost run NAME."},
    {Command::notebook, "notebook", "notebook [OPTION...] NOTEBOOK...",
     "run notebooks, and keep what they show",
     "Each NAME.ipynb is run in a fresh kernel, and saved as NAME.out.ipynb: at the\n"
     "start, after every cell and while a cell runs. What cells print is shown as it\n"
     "comes. A table at the end tells which cells were traced, and why.\n"
     "A cell tagged `parameters` has the defaults of what -p and -P set.\n"
     "\n"
     "Exit code: 0, or 1 if a cell failed, 2 if something could not be read or\n"
     "written, 3 after too many retraces, 69 if a package is missing, 124 after a\n"
     "timeout, 138 if the kernel died."},
    {Command::kernel, "kernel", "kernel (install | uninstall | list) [OPTION...]",
     "make Jupyter know tracehost as a kernel",
     "An installed kernel stands beside the others in JupyterLab, and runs by\n"
     "`jupyter execute --kernel_name=tracehost` too."},
    {Command::repl, "repl", "repl [OPTION...] [ARG...]", "type Python, line by line",
     "In IPython where it is installed, else in Python's own prompt."},
    {Command::export_, "export", "export [OPTION...] (MODULE | SCRIPT.py):FUNCTION -o OUT",
     "write a function's graphs to an archive",
     "The module or script is imported, and a graph traced for each --signature.\n"
     "With none, the graphs are written that the function has after the import, or\n"
     "that of its input_signature.\n"
     "\n"
     "A signature has the arguments: tensors by dtype and shape, ? for any size, and\n"
     "Python literals: --signature 'f32[?,128], i64[], True'.\n"
     "\n"
     "Exit code: 0, or 1 if it cannot be traced or saved, 2 if the command line is\n"
     "wrong, or a file cannot be opened."},
    {Command::inspect, "inspect", "inspect [OPTION...] FILE", "show what is in an archive",
     "Its functions with their graphs, by number, and its tensors.\n"
     "\n"
     "Exit code: 0, or 1 if it is no archive, or damaged, 2 if the command line is\n"
     "wrong, or the file cannot be opened."},
    {Command::doctor, "doctor", "doctor [OPTION...]",
     "check versions and paths; says what to do about what is wrong",
     "One line a check: OK, WARN or FAIL. The exit code is 1 if anything is FAIL."},
    {Command::help, "help", "help [COMMAND]", "show this, or the help of a command", ""},
};

constexpr unsigned run = bit(Command::run), notebook = bit(Command::notebook),
                   kernel = bit(Command::kernel), repl = bit(Command::repl),
                   export_ = bit(Command::export_), inspect = bit(Command::inspect),
                   doctor = bit(Command::doctor);
constexpr unsigned in_python = notebook | kernel | repl | export_ | inspect;

constexpr OptionEntry option_table[] = {
    {"report", '\0', Takes::optional_value, "FILE", "TRACEHOST_REPORT",
     "at exit, write a table of traces and hits (default: stderr)", run},
    {"output", 'o', Takes::value, "OUT", "",
     "the file to write, `-` for stdout, or a folder\n(default: NAME.out.ipynb)", notebook},
    {"inplace", '\0', Takes::nothing, "", "", "write into the notebook itself", notebook},
    {"force", 'f', Takes::nothing, "", "", "overwrite a file that tracehost did not write",
     notebook},
    {"html", '\0', Takes::optional_value, "FILE", "", "a web page beside the result, by nbconvert",
     notebook},
    {"param", 'p', Takes::values, "NAME=VALUE", "",
     "set a parameter: a Python literal, else a text", notebook},
    {"param-file", 'P', Takes::values, "FILE", "", "parameters of a JSON or YAML file", notebook},
    {"list-params", '\0', Takes::nothing, "", "", "show the parameters, run nothing", notebook},
    {"engine", '\0', Takes::value, "ENGINE", "",
     "kernel: a process (default); inprocess: IPython\nin this one, for debuggers", notebook},
    {"cwd", '\0', Takes::value, "DIR", "", "run there (default: where the notebook is)", notebook},
    {"timeout", '\0', Takes::value, "SECONDS", "", "for each cell (default: none)", notebook},
    {"start-timeout", '\0', Takes::value, "SECONDS", "", "for the kernel's start (default: 60)",
     notebook},
    {"save-every", '\0', Takes::value, "SECONDS", "", "while a cell runs (default: 30)", notebook},
    {"allow-errors", '\0', Takes::nothing, "", "", "go on after a cell that failed", notebook},
    {"skip-tag", '\0', Takes::values, "TAG", "", "leave out the cells with this tag", notebook},
    {"max-retraces-per-cell", '\0', Takes::value, "N", "",
     "exit code 3 if a cell brings about more", notebook},
    {"jobs", 'j', Takes::value, "N", "", "notebooks at a time (default: 1)", notebook},
    {"sys-prefix", '\0', Takes::nothing, "", "", "in this virtual environment (the default in one)",
     kernel},
    {"user", '\0', Takes::nothing, "", "", "for this user, in all environments", kernel},
    {"prefix", '\0', Takes::value, "DIR", "", "under DIR/share/jupyter/kernels", kernel},
    {"name", '\0', Takes::value, "NAME", "", "default: tracehost", kernel},
    {"display-name", '\0', Takes::value, "TEXT", "", "what Jupyter shows", kernel},
    {"ipython", '\0', Takes::nothing, "", "", "IPython, or an error if it is missing", repl},
    {"plain", '\0', Takes::nothing, "", "", "Python's own prompt", repl},
    {"init", 'i', Takes::value, "SCRIPT", "", "run this first; its names are there", repl},
    {"output", 'o', Takes::value, "OUT", "", "the file to write", export_},
    {"signature", '\0', Takes::values, "ARGUMENTS", "", "trace a graph for these; may be repeated",
     export_},
    {"name", '\0', Takes::value, "NAME", "", "of the function in the archive\n(default: its own)",
     export_},
    {"source-paths", '\0', Takes::nothing, "", "", "keep files and lines, for messages", export_},
    {"json", '\0', Takes::nothing, "", "", "the manifest", inspect},
    {"graph", '\0', Takes::value, "N", "", "the graph of that number", inspect},
    {"code", '\0', Takes::value, "N", "", "the TorchScript source of that graph", inspect},
    {"device", '\0', Takes::value, "DEVICE", "", "of tensors in --signature (default: cpu)",
     export_},
    {"device", '\0', Takes::value, "DEVICE", "", "put tensors there (default: where they were)",
     inspect},
    {"python", '\0', Takes::value, "PATH", "TRACEHOST_PYTHON",
     "use this virtual environment, or that of this interpreter", run | in_python | doctor},
    {"version", '\0', Takes::nothing, "", "", "show the versions of tracehost, Python and torch",
     run | doctor},
    {"help", '\0', Takes::nothing, "", "", "show help", run | in_python | doctor},
};

// Levenshtein; names are a dozen letters long.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// Near enough: one edit for each three letters, at least one; or the beginning of the name.
class Nearest {
public:
  explicit Nearest(std::string_view word)
      : word_(word), best_(std::max<std::size_t>(1, word.size() / 3) + 1) {}
  void offer(std::string_view name) {
    const bool begins = word_.size() >= 2 && name.starts_with(word_);
    const auto edits = begins ? 1 : distance(word_, name);
    if (edits < best_) {
      best_ = edits;
      name_ = std::string(name);
    }
  }
  const std::optional<std::string> &name() const { return name_; }

private:
  std::string_view word_;
  std::size_t best_;
  std::optional<std::string> name_;
};

} // namespace

std::span<const CommandEntry> commands() { return command_table; }
std::span<const OptionEntry> options() { return option_table; }

const CommandEntry &entry(Command command) {
  return *std::ranges::find(command_table, command, &CommandEntry::command);
}

const CommandEntry *find_command(std::string_view name) {
  const auto *found = std::ranges::find(command_table, name, &CommandEntry::name);
  return found == std::end(command_table) ? nullptr : found;
}

const OptionEntry *find_option(std::string_view name, Command command) {
  const auto *found = std::ranges::find_if(option_table, [&](const OptionEntry &option) {
    return option.name == name && applies(option, command);
  });
  if (found == std::end(option_table))
    found = std::ranges::find(option_table, name, &OptionEntry::name);
  return found == std::end(option_table) ? nullptr : found;
}

const OptionEntry *find_letter(char letter, Command command) {
  const auto *found = std::ranges::find_if(option_table, [&](const OptionEntry &option) {
    return option.letter == letter && applies(option, command);
  });
  return found == std::end(option_table) ? nullptr : found;
}

bool applies(const OptionEntry &option, Command command) {
  return (option.commands & bit(command)) != 0;
}

bool is_in_python(Command command) { return (in_python & bit(command)) != 0; }

std::optional<std::string> nearest_command(std::string_view word) {
  Nearest nearest(word);
  for (const auto &command : command_table)
    nearest.offer(command.name);
  return nearest.name();
}

std::optional<std::string> nearest_option(std::string_view name, Command command) {
  Nearest nearest(name);
  for (const auto &option : option_table)
    if (applies(option, command))
      nearest.offer(option.name);
  return nearest.name();
}

} // namespace tracehost::cli
