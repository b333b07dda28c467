"""tracehost completion: a script for a shell, and what the script asks at each press of Tab.

`tracehost completion words -- WORD...` answers what may stand in the place of the last word: which files on the first
line (none, any, folders or a pattern such as *.py), then a word a line, with its help behind a tab. The words are read
as the binary reads them: behind a program's name they are the program's own."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from typing import NamedTuple

from .commands import commands
from .errors import UsageError
from .help import about
from .options import PROGRAM, Command, Kind, Option

# CPython's own short options, as far as they matter to where a program begins.
_FLAGS = "bBdEhiIOPqsSuvVx"
_BEFORE_PROGRAM = re.compile(rf"--?$|-[{_FLAGS}]*[cm]")
_PYTHONS_WITH_VALUE = re.compile(rf"--check-hash-based-pycs$|-[{_FLAGS}]*[WX]$")
_FILES = {
    "file": "any",
    "folder": "folders",
    "notebook": "*.ipynb",
    "target": "*.py",
    "program": "*.py",
}

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


class _Place(NamedTuple):
    """Where a word of a command's may stand."""

    command: Command
    named: bool = False
    """Else a script may stand there, too: the word `run` may be left out."""
    options: bool = True
    commands: bool = True


def _offered(before: list[str], typed: str) -> Answer:
    place = _place(before)
    if isinstance(place, Option):
        return _of_kind(place.kind)
    if place is None:
        return "any", []
    if place.options and typed.startswith("-"):
        if not typed.startswith("--") or "=" not in typed:
            return "none", _options(place.command)
        option = _spelled(place.command, typed.partition("=")[0])
        return ("none", []) if option is None else _of_kind(option.kind)
    if place.named:
        return _of_kind(place.command.words)
    return "*.py", _names() if place.commands else []


def _place(before: list[str]) -> Option | _Place | None:
    """Where the words before lead: to an option's value, to a word of a command's, or to a program's words (None)."""
    place = _Place(commands()["run"])
    words = iter(before)
    for word in words:
        option = _spelled(place.command, word)
        if option is not None and option.nargs is None:
            if next(words, None) is None:
                return option
        elif place.command.words is not PROGRAM:
            if word == "--":
                return place._replace(options=False)
        elif _BEFORE_PROGRAM.match(word):
            return None
        elif _PYTHONS_WITH_VALUE.match(word):
            place = place._replace(commands=False)
            if next(words, None) is None:
                return None
        elif word.startswith("-"):
            place = place._replace(commands=place.commands and word.startswith("--"))
        elif place.commands and not place.named and word in commands():
            place = _Place(commands()[word], named=True)
        else:
            return None
    return place


def _names() -> list[tuple[str, str]]:
    return [(command.name, command.description or "") for command in commands().values()]


def _spelled(command: Command, word: str) -> Option | None:
    return next((option for option in command.options if word in option.option_strings), None)


def _of_kind(kind: Kind) -> Answer:
    if kind.completes == "command":
        return "none", _names()
    return _FILES.get(kind.completes, "none"), [(choice, "") for choice in kind.choices]


def _options(command: Command) -> list[tuple[str, str]]:
    found = []
    for option in command.options:
        text = " ".join(about(option).split())
        value = option.nargs == "?" and option.const == "-"  # an optional one
        spellings = [*option.option_strings, *([f"--{option.name}="] if value else [])]
        found += [(word, text) for word in spellings]
    return found
