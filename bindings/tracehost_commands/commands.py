"""The table of commands: the summary, the help and the options of each, for argparse.

Help, completion and the manual page read it. The options of `run`, some of which other commands have too, are the
binary's: `tracehost --options-json` prints them, and options.json keeps them. Nothing here imports torch."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from .errors import CommandError
from .options import (
    COMMAND,
    FILE,
    FLAG,
    FOLDER,
    LIMIT,
    NONE,
    NOTEBOOK,
    NUMBER,
    PROGRAM,
    TARGET,
    TEXT,
    WHOLE,
    Command,
    Kind,
    one_of,
)

OF_RUN = os.path.join(os.path.dirname(__file__), "options.json")
# Those that commands have in which the user's code runs.
_OF_PROGRAMS = ("retrace-warn", "stance", "eager", "optimize", "trace", "intercept")
_SHELLS = one_of("bash", "zsh", "fish")

# What an option is spelled as, its values, its help, and what else Option takes.
Row = tuple[str, Kind, str] | tuple[str, Kind, str, dict[str, Any]]
_NOTEBOOK: list[Row] = [
    ("-o, --output OUT", FILE, "the file to write, `-` for stdout, or a folder\n(default: NAME.out.ipynb)", {"group": "o"}),
    ("--inplace", FLAG, "write into the notebook itself", {"group": "o"}),
    ("-f, --force", FLAG, "overwrite a file that tracehost did not write"),
    ("--html[=FILE]", FILE, "a web page beside the result, by nbconvert"),
    ("-p, --param NAME=VALUE", TEXT, "set a parameter: a Python literal, else a text", {"repeats": True}),
    ("-P, --param-file FILE", FILE, "parameters of a JSON or YAML file", {"repeats": True}),
    ("--list-params", FLAG, "show the parameters, run nothing"),
    ("--cwd DIR", FOLDER, "run there (default: where the notebook is)"),
    ("--timeout SECONDS", NUMBER, "for each cell (default: none)"),
    ("--start-timeout SECONDS", NUMBER, "for the kernel's start (default: 60)", {"fallback": 60.0}),
    ("--save-every SECONDS", NUMBER, "while a cell runs (default: 30)", {"fallback": 30.0}),
    ("--allow-errors", FLAG, "continue after a cell that failed"),
    ("--skip-tag TAG", TEXT, "leave out the cells with this tag", {"repeats": True}),
    ("--max-retraces-per-cell N", WHOLE, "exit code 3 if a cell causes more"),
    ("-j, --jobs N", WHOLE, "notebooks at a time (default: 1)", {"fallback": 1}),
]  # fmt: skip
_LOCK: list[Row] = [
    (
        "--output FILE",
        FILE,
        "the lock to write (default: tracehost.lock)",
        {"fallback": "tracehost.lock"},
    ),
    ("--update", FLAG, "keep what the file has, and add to it"),
]
_FIX: list[Row] = [("--apply", FLAG, "write the changes, too")]
_KERNEL: list[Row] = [
    ("--sys-prefix", FLAG, "in this virtual environment (the default in one)", {"group": "p"}),
    ("--user", FLAG, "for this user, in all environments", {"group": "p"}),
    ("--prefix DIR", FOLDER, "under DIR/share/jupyter/kernels", {"group": "p"}),
    ("--name NAME", TEXT, "default: tracehost", {"fallback": "tracehost"}),
    ("--display-name TEXT", TEXT, "what Jupyter shows"),
]
_REPL: list[Row] = [
    ("--ipython", FLAG, "IPython, or an error if it is missing", {"group": "p"}),
    ("--plain", FLAG, "Python's own prompt", {"group": "p"}),
    ("-i, --init SCRIPT", FILE, "run this first; its names are there"),
]
_EXPORT: list[Row] = [
    ("-o, --output OUT", FILE, "the file to write"),
    ("--signature ARGUMENTS", TEXT, "trace a graph for these; may be repeated", {"repeats": True}),
    ("--name NAME", TEXT, "of the function in the archive\n(default: its own)"),
    ("--source-paths", FLAG, "keep files and lines, for messages"),
    ("--device DEVICE", TEXT, "of tensors in --signature (default: cpu)"),
]
_INSPECT: list[Row] = [
    ("--json", FLAG, "the manifest", {"group": "w"}),
    ("--graph N", WHOLE, "the graph of that number", {"group": "w"}),
    ("--code N", WHOLE, "that graph, as it is in the file", {"group": "w"}),
    ("--device DEVICE", TEXT, "put tensors there (default: where they were)"),
]
_BENCH: list[Row] = [
    ("--signature ARGUMENTS", TEXT, "measure with these; may be repeated", {"repeats": True}),
    ("--against LIST", TEXT, "eager, compile or both (default: eager,compile)", {"fallback": "eager,compile"}),
    ("--warmup N", WHOLE, "calls before the measured ones (default: 10)", {"fallback": 10}),
    ("--repeat N", WHOLE, "rounds (default: 50, fewer if they take over 10 s)"),
    ("--json", FLAG, "the figures as JSON"),
    ("--max-regress PERCENT", NUMBER, "exit code 3 if slower than eager by more"),
    ("--device DEVICE", TEXT, "of tensors in --signature (default: cpu)"),
]  # fmt: skip
_REPORT: list[Row] = [
    ("-o, --output OUT", FILE, "the page to write, .html or .json (default: RUN.html)")
]
_DOCTOR: list[Row] = [("--json", FLAG, "one JSON document")]

# The name, what follows "tracehost", a summary, more help, the words, the options, and those of `run` that it has.
_TABLE: list[tuple[str, str, str, str, Kind, list[Row], tuple[str, ...]]] = [
    ("run", "run [OPTION...] SCRIPT [ARG...]\nrun [OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]",
     "run a Python program; the word itself may be left out", """\
As `python SCRIPT`: same output, same exit code, same signals. Options stand
before the script; what follows the script belongs to it. Python's own options
(-u, -O, -W ARG, -X OPT, -i ...) are taken as well. A script that is named like
a command: tracehost run NAME.""", PROGRAM, [], ()),
    ("lock", "lock [OPTION...] SCRIPT [ARG...]\nlock [OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]",
     "run a program, and write down which signatures it traces", """\
The file has a line for each signature that calls of Functions traced, sorted.
Keep it with the source: `tracehost run --frozen` allows these traces, and makes
any other an error that names the argument.

Exit code: the program's own. A program that failed writes nothing. 1 if the
events of the run are lost, 2 if the command line is wrong, or the file cannot
be written.""", PROGRAM, _LOCK, ("optimize", "trace", "intercept")),
    ("fix", "fix [OPTION...] SCRIPT [ARG...]\nfix [OPTION...] (DIR | ZIP | - | -c CODE | -m MODULE) [ARG...]",
     "run a program, and print fixes of its retraces as a diff", """\
The fixes of RetraceWarnings that change a decorator or an argument of a call,
as a unified diff. Each hunk says what it saves of the traces of the run. What
the program prints goes to stderr. A fix that changes results, or more of the
program, is named there, and is left to you.

--apply writes the changes. A file is left alone if it has changed since the
run, if it is of an installed package, or a link out of the project.

Exit code: the program's own. 1 if --apply left a file alone, 2 if the command
line is wrong. 69 if LibCST is missing: pip install 'tracehost[fix]'.""", PROGRAM, _FIX, ("optimize",)),
    ("notebook", "notebook [OPTION...] NOTEBOOK...", "run notebooks, and keep what they show", """\
Each NAME.ipynb is run in a fresh kernel, and saved as NAME.out.ipynb: at the
start, after every cell and while a cell runs. What cells print is shown as it
comes. A table at the end says which cells were traced, and why.
A cell tagged `parameters` has the defaults of what -p and -P set.

Exit code: 0, or 1 if a cell failed, 2 if something could not be read or
written, 3 after too many retraces. It is 69 if a package is missing, 124 after
a timeout, 138 if the kernel died.""", NOTEBOOK, _NOTEBOOK, _OF_PROGRAMS),
    ("kernel", "kernel (install | uninstall | list) [OPTION...]", "install tracehost as a Jupyter kernel", """\
An installed kernel stands beside the others in JupyterLab, and runs by
`jupyter execute --kernel_name=tracehost` too.""", one_of("install", "uninstall", "list"), _KERNEL, ()),
    ("repl", "repl [OPTION...] [ARG...]", "type Python, line by line", """\
In IPython where it is installed, else in Python's own prompt.""", TEXT, _REPL, _OF_PROGRAMS),
    ("export", "export [OPTION...] (MODULE | SCRIPT.py):FUNCTION -o OUT",
     "write a function's graphs to an archive", """\
The module or script is imported, and a graph traced for each --signature.
With none, the graphs are written that the function has after the import, or
that of its input_signature.

A signature has the arguments: tensors by dtype and shape, ? for dynamic, and
Python literals: --signature 'f32[?,128], i64[], True'.

Exit code: 0, or 1 if it cannot be traced or saved, 2 if the command line is
wrong, or a file cannot be opened.""", TARGET, _EXPORT, ()),
    ("inspect", "inspect [OPTION...] FILE", "show what is in an archive", """\
Its functions with their graphs, by number, and its tensors.

Exit code: 0, or 1 if it is no archive, or damaged, 2 if the command line is
wrong, or the file cannot be opened.""", FILE, _INSPECT, ()),
    ("bench", "bench [OPTION...] (MODULE | SCRIPT.py | ARCHIVE):FUNCTION",
     "time a function's calls against eager and torch.compile", """\
The module or script is imported, and the function called with random tensors
of each --signature: f32[32,128], i64[], True. With none, with those of its
input_signature.

The first call includes the trace or compilation; `pays back` says after how
many calls it was worth it. A function of an archive has nothing beside it.

Exit code: 0, or 1 if the function raises or cannot be traced, 2 if the command
line is wrong, or a file cannot be opened, 3 by --max-regress.""", TARGET, _BENCH, ()),
    ("report", "report [OPTION...] RUN.jsonl", "make a page of a run from what --events wrote", """\
One file without scripts or links: Functions by cost, with the cause, the fix
and the marked source of each retrace. A run that was killed has a page, too.

Exit code: 0, or 2 if a file cannot be read or written.""", FILE, _REPORT, ()),
    ("doctor", "doctor [OPTION...]", "check the installation and suggest fixes", """\
One line a check: OK, WARN or FAIL. The exit code is 1 if anything is FAIL.""", NONE, _DOCTOR, ()),
    ("completion", "completion (bash | zsh | fish)", "print a script by which a shell completes command lines", """\
For this shell, and for good:

  bash  source <(tracehost completion bash)      the same line in ~/.bashrc
  zsh   source <(tracehost completion zsh)       the same line in ~/.zshrc,
                                                 below compinit
  fish  tracehost completion fish | source       the same line in
                                                 ~/.config/fish/config.fish""", _SHELLS, [], ()),
    ("help", "help [COMMAND]", "show this, or the help of a command", "", COMMAND, [], ()),
]  # fmt: skip
_KINDS = {"none": FLAG, "whole": WHOLE, "limit": LIMIT, "text": TEXT, "file": FILE, "output": FILE}
# At the end of a command's options; of `help` there are none.
_AT_THE_END = {"completion": ("help",), "doctor": ("python", "version", "help"), "help": ()}


@cache
def commands() -> dict[str, Command]:
    """All of them, by name. Raises CommandError if the options of `run` cannot be read."""
    try:
        with open(OF_RUN, encoding="utf-8") as table:
            of_run = {row["name"]: row for row in json.load(table)["options"]}
    except (OSError, ValueError, KeyError) as error:
        again = "run scripts/setup or pip install again"
        raise CommandError(f"cannot read {OF_RUN}: {error}; {again}") from None
    return {row[0]: _command(of_run, *row) for row in _TABLE}


def _command(
    of_run: dict[str, dict[str, Any]],
    name: str,
    synopsis: str,
    summary: str,
    detail: str,
    words: Kind,
    rows: list[Row],
    shared: tuple[str, ...],
) -> Command:
    command = Command(name, synopsis, summary, detail, words)
    for one in of_run if name == "run" else shared:
        _add_of_run(command, of_run[one])
    for spelling, kind, text, *more in rows:
        command.add(spelling, kind, text, **(more[0] if more else {}))
    for one in () if name == "run" else _AT_THE_END.get(name, ("python", "help")):
        _add_of_run(command, of_run[one])
    return command


def _add_of_run(command: Command, row: dict[str, Any]) -> None:
    takes = {"nothing": "", "optional value": "[={}]"}.get(row["takes"], " {}")
    kind = one_of(*row["choices"]) if row["choices"] else _KINDS[row["kind"]]
    kind = kind if kind is FLAG else kind._replace(takes=row["what"])
    command.add(f"--{row['name']}" + takes.format(row["placeholder"]), kind, row["summary"], group=row["group"],
                variable=row["variable"], shared=True, repeats=row["takes"] == "values")  # fmt: skip
