#include "cli/table.h"

namespace tracehost::cli {
namespace {

constexpr unsigned run = bit(Command::run), notebook = bit(Command::notebook),
                   kernel = bit(Command::kernel), repl = bit(Command::repl),
                   export_ = bit(Command::export_), inspect = bit(Command::inspect),
                   doctor = bit(Command::doctor), completion = bit(Command::completion);
constexpr unsigned in_python = notebook | kernel | repl | export_ | inspect;

constexpr OptionEntry option_table[] = {
    {"report", '\0', Takes::optional_value, Kind::file, "FILE",
     "at exit, write a table of traces and hits (default: stderr)", run},
    {"output", 'o', Takes::value, Kind::file, "OUT",
     "the file to write, `-` for stdout, or a folder\n(default: NAME.out.ipynb)", notebook, 'o'},
    {"inplace", '\0', Takes::nothing, Kind::none, "", "write into the notebook itself", notebook,
     'o'},
    {"force", 'f', Takes::nothing, Kind::none, "", "overwrite a file that tracehost did not write",
     notebook},
    {"html", '\0', Takes::optional_value, Kind::file, "FILE",
     "a web page beside the result, by nbconvert", notebook},
    {"param", 'p', Takes::values, Kind::text, "NAME=VALUE",
     "set a parameter: a Python literal, else a text", notebook},
    {"param-file", 'P', Takes::values, Kind::file, "FILE", "parameters of a JSON or YAML file",
     notebook},
    {"list-params", '\0', Takes::nothing, Kind::none, "", "show the parameters, run nothing",
     notebook},
    {"engine", '\0', Takes::value, Kind::choice, "kernel|inprocess",
     "kernel: a process (default); inprocess: IPython\nin this one, for debuggers", notebook},
    {"cwd", '\0', Takes::value, Kind::folder, "DIR", "run there (default: where the notebook is)",
     notebook},
    {"timeout", '\0', Takes::value, Kind::number, "SECONDS", "for each cell (default: none)",
     notebook},
    {"start-timeout", '\0', Takes::value, Kind::number, "SECONDS",
     "for the kernel's start (default: 60)", notebook},
    {"save-every", '\0', Takes::value, Kind::number, "SECONDS", "while a cell runs (default: 30)",
     notebook},
    {"allow-errors", '\0', Takes::nothing, Kind::none, "", "go on after a cell that failed",
     notebook},
    {"skip-tag", '\0', Takes::values, Kind::text, "TAG", "leave out the cells with this tag",
     notebook},
    {"max-retraces-per-cell", '\0', Takes::value, Kind::whole, "N",
     "exit code 3 if a cell brings about more", notebook},
    {"jobs", 'j', Takes::value, Kind::whole, "N", "notebooks at a time (default: 1)", notebook},
    {"sys-prefix", '\0', Takes::nothing, Kind::none, "",
     "in this virtual environment (the default in one)", kernel, 'p'},
    {"user", '\0', Takes::nothing, Kind::none, "", "for this user, in all environments", kernel,
     'p'},
    {"prefix", '\0', Takes::value, Kind::folder, "DIR", "under DIR/share/jupyter/kernels", kernel,
     'p'},
    {"name", '\0', Takes::value, Kind::text, "NAME", "default: tracehost", kernel},
    {"display-name", '\0', Takes::value, Kind::text, "TEXT", "what Jupyter shows", kernel},
    {"ipython", '\0', Takes::nothing, Kind::none, "", "IPython, or an error if it is missing", repl,
     'p'},
    {"plain", '\0', Takes::nothing, Kind::none, "", "Python's own prompt", repl, 'p'},
    {"init", 'i', Takes::value, Kind::file, "SCRIPT", "run this first; its names are there", repl},
    {"output", 'o', Takes::value, Kind::file, "OUT", "the file to write", export_},
    {"signature", '\0', Takes::values, Kind::text, "ARGUMENTS",
     "trace a graph for these; may be repeated", export_},
    {"name", '\0', Takes::value, Kind::text, "NAME",
     "of the function in the archive\n(default: its own)", export_},
    {"source-paths", '\0', Takes::nothing, Kind::none, "", "keep files and lines, for messages",
     export_},
    {"json", '\0', Takes::nothing, Kind::none, "", "the manifest", inspect, 'w'},
    {"graph", '\0', Takes::value, Kind::whole, "N", "the graph of that number", inspect, 'w'},
    {"code", '\0', Takes::value, Kind::whole, "N", "the TorchScript source of that graph", inspect,
     'w'},
    {"device", '\0', Takes::value, Kind::text, "DEVICE", "of tensors in --signature (default: cpu)",
     export_},
    {"device", '\0', Takes::value, Kind::text, "DEVICE",
     "put tensors there (default: where they were)", inspect},
    {"json", '\0', Takes::nothing, Kind::none, "", "one JSON document", doctor},
    {"python", '\0', Takes::value, Kind::file, "PATH",
     "use this virtual environment, or that of this interpreter", run | in_python | doctor},
    {"config", '\0', Takes::value, Kind::file, "FILE", "read settings here, and in no other file",
     run | in_python | doctor, 'c'},
    {"no-config", '\0', Takes::nothing, Kind::none, "",
     "read no tracehost.toml, pyproject.toml or user's file", run | in_python | doctor, 'c'},
    {"version", '\0', Takes::nothing, Kind::none, "",
     "show the versions of tracehost, Python and torch", run | doctor},
    {"help", '\0', Takes::nothing, Kind::none, "", "show help",
     run | in_python | doctor | completion},
};

} // namespace

std::span<const OptionEntry> options() { return option_table; }

bool is_in_python(Command command) { return (in_python & bit(command)) != 0; }

} // namespace tracehost::cli
