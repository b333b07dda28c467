"""The manual page tracehost(1), from the table of commands.

`python -m tracehost_commands.manual OPTIONS.json VERSION`, as the build calls it, prints it for `man`."""

from __future__ import annotations

import re
import sys

from . import commands as table
from .help import WHAT_IT_IS, about, spelled, variables
from .options import Command

_EXIT_CODES = [
    ("0", "the program ended by itself, or the command has done its work"),
    ("1", "the program raised an exception; a command found or met something wrong"),
    ("2", "the command line is wrong, or a file cannot be opened"),
    ("3", "a limit was exceeded, as by --max-retraces"),
]  # fmt: skip


def page(version: str) -> str:
    run, *others = table.commands().values()
    lines = [
        f'.TH TRACEHOST 1 "" "tracehost {version}" "User Commands"', ".nh", ".ad l",
        ".SH NAME", _plain("tracehost - run Python programs whose PyTorch functions become cached graphs"),
        ".SH SYNOPSIS", *_synopsis(run), ".br", r"\fBtracehost\fR \fICOMMAND\fR ...",
        ".SH DESCRIPTION", *_text(WHAT_IT_IS), ".PP", *_text(run.epilog or ""),
        ".SH OPTIONS", *_options(run),
        ".SH COMMANDS", *(line for command in others for line in _section(command)),
        ".SH ENVIRONMENT", _plain(variables(run)),
        ".SH EXIT STATUS", *(line for code, text in _EXIT_CODES for line in (".TP", rf"\fB{code}\fR", _plain(text))),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _section(command: Command) -> list[str]:
    detail = [".PP", *_text(command.epilog)] if command.epilog else []
    return [rf".SS \fBtracehost {command.name}\fR", *_synopsis(command), ".PP", _plain(command.description or ""), *detail,
            *_options(command)]  # fmt: skip


def _synopsis(command: Command) -> list[str]:
    forms = (command.usage or "").split("\n")
    name = command.name
    shown = [rf"\fBtracehost {name}\fR{_escaped(form.removeprefix(name))}" for form in forms]
    return "\n.br\n".join(shown).split("\n")


def _options(command: Command) -> list[str]:
    """Those that it shares with `run` are named only."""
    own = [o for o in command.options if command.name == "run" or not o.shared]
    others = ", ".join(f"--{o.name}" for o in command.options if o not in own)
    lines = []
    for option in own:
        variable = f" ({option.variable})" if option in command.settings() else ""
        text = about(option).replace("\n", " ")
        lines += [".TP", rf"\fB{_escaped(spelled(option))}\fR", _plain(text + variable)]
    return [*lines, *([".PP", _plain(f"Also, as of run: {others}")] if others else [])]


def _text(text: str) -> list[str]:
    """Paragraphs; lines that are indented stay as they are."""
    lines: list[str] = []
    for part in text.split("\n\n"):
        shown = [_plain(line) for line in part.split("\n")]
        if part.startswith(" "):
            shown = [".nf", *shown, ".fi"]
        lines += [".PP", *shown] if lines else shown
    return lines


def _plain(text: str) -> str:
    return _escaped(text) if not text.startswith((".", "'")) else r"\&" + _escaped(text)


def _escaped(text: str) -> str:
    return re.sub(r"[\\`'-]", lambda found: {"\\": r"\e", "-": r"\-", "`": r"\(ga", "'": r"\(aq"}[found[0]], text)  # fmt: skip


if __name__ == "__main__":
    table.OF_RUN = sys.argv[1]
    sys.stdout.write(page(sys.argv[2]))
