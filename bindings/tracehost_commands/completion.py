"""tracehost completion: a script for a shell, and what the script asks at each press of Tab.

`tracehost completion words -- WORD...` answers what may stand in the place of the last word: which files on the first
line (none, any, folders or a pattern such as *.py), then a word a line, with its help behind a tab. The words are read
as the binary reads them: behind a program's name they are the program's own."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace

from .commands import commands
from .errors import UsageError
from .help import about
from .options import Command, Kind, Option

# CPython's own short options, as far as they matter to where a program begins.
_FLAGS = "bBdEhiIOPqsSuvVx"
_BEFORE_PROGRAM = re.compile(rf"--?$|-[{_FLAGS}]*[cm]")
_PYTHONS_WITH_VALUE = re.compile(rf"--check-hash-based-pycs$|-[{_FLAGS}]*[WX]$")
_FILES = {"file": "any", "folder": "folders", "notebook": "*.ipynb", "target": "*.py"}

Answer = tuple[str, list[tuple[str, str]]]


def main(options: Namespace, words: list[str]) -> int:
    shells = commands()["completion"].words
    if len(words) != 1 or words[0] not in shells.choices:
        got = f", got '{' '.join(words)}'" if words else ""
        raise UsageError(f"'completion' takes {shells.takes}{got}")
    script = os.path.join(os.path.dirname(__file__), f"tracehost.{words[0]}")
    with open(script, encoding="utf-8") as file:
        sys.stdout.write(file.read())
    return 0


def answer(words: list[str]) -> str:
    *before, typed = words or [""]
    files, offered = _offered(before, typed)
    start = typed.partition("=")[2] if typed.startswith("--") and "=" in typed else typed
    lines = [f"{word}\t{text}" for word, text in offered if word.startswith(start)]
    return "\n".join([files, *lines]) + "\n"


def _offered(before: list[str], typed: str) -> Answer:
    place = _place(before)
    if isinstance(place, Option):
        return _of_kind(place.kind)
    if place is None:
        return "any", []
    command, options_too, commands_too = place
    if options_too and typed.startswith("-"):
        option = _spelled(command, typed.partition("=")[0])
        if typed.startswith("--") and "=" in typed:
            return ("none", []) if option is None else _of_kind(option.kind)
        return "none", _options(command)
    if command.name == "run" and commands_too is not None:
        names = [(c.name, c.description or "") for c in commands().values()] if commands_too else []
        return "*.py", names
    return _of_kind(command.words)


def _place(before: list[str]) -> Option | tuple[Command, bool, bool | None] | None:
    """Where the words before lead: to an option's value, to a word of a program's (None), or to a word of a command's:
    whether an option may stand there, and whether a command may (None: `run` itself was named)."""
    command, commands_too = commands()["run"], True
    named: bool = False
    words = iter(before)
    for word in words:
        option = _spelled(command, word)
        if option is not None and option.nargs is None:
            if next(words, None) is None:
                return option
        elif command.name != "run":
            if word == "--":
                return command, False, None
        elif _BEFORE_PROGRAM.match(word):
            return None
        elif _PYTHONS_WITH_VALUE.match(word):
            commands_too = False
            if next(words, None) is None:
                return None
        elif word.startswith("-"):
            commands_too = commands_too and word.startswith("--")
        elif commands_too and not named and word in commands():
            command, named = commands()[word], True
        else:
            return None
    return command, True, None if named else commands_too


def _spelled(command: Command, word: str) -> Option | None:
    return next((option for option in command.options if word in option.option_strings), None)


def _of_kind(kind: Kind) -> Answer:
    if kind.completes == "command":
        return "none", [(c.name, c.description or "") for c in commands().values()]
    return _FILES.get(kind.completes, "none"), [(choice, "") for choice in kind.choices]


def _options(command: Command) -> list[tuple[str, str]]:
    found = []
    for option in command.options:
        text = " ".join(about(option).split())
        value = option.nargs == "?" and option.const == "-"  # an optional one
        spellings = [*option.option_strings, *([f"--{option.name}="] if value else [])]
        found += [(word, text) for word in spellings]
    return found
