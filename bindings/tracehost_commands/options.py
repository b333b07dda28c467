"""Options of a command, by argparse: what their values may be, and their variables.

Each option has an environment variable too, which argparse does not know: `Command.settings` reads both. A value is
checked by its Kind, wherever it comes from, so one sentence says what is wrong with it."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .errors import UsageError


class Kind(NamedTuple):
    """What a value, or a word of a command, is."""

    completes: str
    """What a shell offers: file, folder, notebook, target, command, choice; "": nothing."""
    takes: str
    convert: Callable[[str], Any] = str
    """Raises ValueError for a text that is no such value."""
    choices: tuple[str, ...] = ()

    def __call__(self, text: str, said_by: str) -> Any:
        try:
            return self.convert(text)
        except ValueError:
            raise UsageError(f"{said_by} takes {self.takes}, got '{text}'") from None


def one_of(*choices: str) -> Kind:
    *first, last = choices
    takes = f"{', '.join(first)} or {last}" if first else last
    return Kind("choice", takes, lambda text: choices[choices.index(text)], choices)


def _wrong(text: str) -> Any:
    raise ValueError(text)


def _flag(text: str) -> bool:
    return text in ("true", "1") or (text not in ("false", "0") and _wrong(text))


def _whole(text: str) -> int:
    return int(text) if text.removeprefix("+").isdecimal() else _wrong(text)


def _number(text: str) -> float:
    is_plain = not set(text) & set(" \t\n_")
    return float(text) if is_plain and float(text) >= 0 else _wrong(text)


def _limit(text: str) -> str:
    return text if text in ("off", "error") or _whole(text) > 0 else _wrong(text)


FLAG = Kind("", "true or false", _flag)
TEXT = Kind("", "a text")
WHOLE = Kind("", "a non-negative integer", _whole)
NUMBER = Kind("", "a non-negative number", _number)
LIMIT = Kind("", "", _limit)  # the binary says what it takes
FILE = Kind("file", "a path")
FOLDER = Kind("folder", "the path of a folder")
NOTEBOOK = Kind("notebook", "a notebook")
TARGET = Kind("target", "MODULE:FUNCTION or SCRIPT.py:FUNCTION")
COMMAND = Kind("command", "a command")
PROGRAM = Kind("program", "a program")  # with Python's short options in front, and words of its own
NONE = Kind("none", "nothing")


class Given:
    """What an option was set to, and by what: `--jobs`, `TRACEHOST_NOTEBOOK_JOBS`."""

    def __init__(self, option: Option, origin: str) -> None:
        self.option, self.origin = option, origin
        self.texts: list[str] = []
        self.values: list[Any] = []

    def add(self, text: str) -> None:
        self.values.append(self.option.kind(text, self.origin))
        # Of a flag `1` and `true` are one.
        self.texts.append(str(self.values[-1]).lower() if self.option.kind is FLAG else text)

    @property
    def value(self) -> Any:
        return self.values if self.option.repeats else self.values[-1]

    @property
    def words(self) -> list[str]:
        return [f"--{self.option.name}={text}" for text in self.texts]


class Option(argparse.Action):
    """An option of a command. An optional value, as each flag has one, comes behind '=' only.

    Args:
        kind: what its values are
        repeats: may be given several times, and its variable has a value on each line
        group: options of one group exclude each other
        fallback: the value where nothing is set
        variable, shared: the environment variable of an option that commands share with `run`
        command: the command, whose own variable it is otherwise: TRACEHOST_NOTEBOOK_JOBS
    """

    def __init__(
        self,
        option_strings: list[str],
        dest: str,
        *,
        kind: Kind = FLAG,
        repeats: bool = False,
        group: str = "",
        fallback: Any = None,
        variable: str = "",
        shared: bool = False,
        command: str = "",
        **rest: Any,
    ) -> None:
        super().__init__(option_strings, dest, **rest)
        self.kind, self.repeats, self.group = kind, repeats, group
        nothing: Any = False if kind is FLAG else fallback
        self.fallback = [] if repeats else nothing
        self.name = option_strings[-1].removeprefix("--")
        self.shared = shared
        own = f"TRACEHOST_{command}_{self.name}".upper().replace("-", "_")
        self.variable = variable or own
        self.full_name = self.name if shared else f"{command}.{self.name}"

    @property
    def usage(self) -> str:
        """`--optimize exact|off`, `--report[=FILE]`, `--eager`"""
        if self.kind is FLAG:
            return f"--{self.name}"
        takes = f"[={self.metavar}]" if self.nargs == "?" else f" {self.metavar}"
        return f"--{self.name}{takes}"

    def __call__(self, parser: Any, namespace: Any, text: Any, spelled: Any = None) -> None:
        given = vars(namespace).setdefault(self.dest, Given(self, f"--{self.name}"))
        if given.texts and not self.repeats:
            raise UsageError(
                f"option '--{self.name}' cannot be specified more than once; {parser.see_help}"
            )
        given.add(text)


class Command(argparse.ArgumentParser):
    """A command's options and words.

    Args:
        name: the command
        synopsis: what follows "tracehost", a line each
        summary: one line
        detail: the rest of its help
        words: what the command's words are
    """

    def __init__(
        self, name: str, synopsis: str, summary: str, detail: str = "", words: Kind = NONE
    ) -> None:
        super().__init__(
            f"tracehost {name}", synopsis, summary, detail, add_help=False, allow_abbrev=False,
            exit_on_error=False, argument_default=argparse.SUPPRESS,
        )  # fmt: skip
        self.name, self.words = name, words
        self.options: list[Option] = []
        self.see_help = f"try 'tracehost help {name}'"

    def add(self, spelling: str, kind: Kind, text: str, **rest: Any) -> None:
        """`spelling`: as help shows it, `-j, --jobs N` or `--html[=FILE]`."""
        names, _, takes = (
            spelling.replace("[=", " ").rstrip("]").rpartition(" --")[2].partition(" ")
        )
        spelled = [f"--{names.removeprefix('--')}"]
        if spelling[1] != "-":
            spelled.insert(0, spelling[:2])
        if kind is FLAG or "[=" in spelling:  # a value comes behind '=' only
            rest |= {"nargs": "?", "const": "true" if kind is FLAG else "-"}
        option = self.add_argument(*spelled, action=Option, metavar=takes, kind=kind, help=text,
                                   command=self.name, **rest)  # fmt: skip
        assert isinstance(option, Option)
        self.options.append(option)

    def settings(self) -> list[Option]:
        return [option for option in self.options if option.name not in ("help", "version")]

    def split(
        self, words: list[str], is_elsewhere: Callable[[str], bool]
    ) -> tuple[dict[str, Given], list[str]]:
        """The options among the words, by the names of fields, and the other words. Raises UsageError.

        Args:
            is_elsewhere: whether another command has an option of that name
        """
        own, rest = self.own(words)
        try:
            found, others = self.parse_known_args(self._in_one_word(own))
        except argparse.ArgumentError as error:
            name = (error.argument_name or "").rpartition("/")[2]
            raise UsageError(
                f"the required argument for option '{name}' is missing; {self.see_help}"
            ) from None
        for word in others:
            if word.startswith("-") and len(word) > 1:
                raise UsageError(self.unknown(word.partition("=")[0], is_elsewhere))
        return vars(found), [*others, *rest]

    def own(self, words: list[str]) -> tuple[list[str], list[str]]:
        """The command's words, and those behind `--`, or of the program that it runs."""
        if self.words is not PROGRAM:
            end = words.index("--") if "--" in words else len(words)
            return words[:end], words[end + 1 :]
        spelled = {word: option for option in self.options for word in option.option_strings}
        end = 0
        while end < len(words) and words[end].startswith("--") and len(words[end]) > 2:
            option = spelled.get(words[end])
            end += 2 if option is not None and option.nargs is None else 1
        return words[:end], words[end:]

    def _in_one_word(self, words: list[str]) -> list[str]:
        """Each option with its value, so that it does not matter what a value begins with."""
        spelled = {word: option for option in self.options for word in option.option_strings}
        result, left = [], iter(words)
        for word in left:
            option = spelled.get(word)
            value = option and (option.const if option.nargs == "?" else next(left, None))
            result.append(word if value is None else f"--{spelled[word].name}={value}")
        return result

    def from_variables(self, given: dict[str, Given]) -> dict[str, Given]:
        """What variables say, where no option has said it or excludes it. Raises UsageError."""
        groups = {g.option.group for g in given.values() if g.value is not False} - {""}
        result = {}
        for option in self.settings():
            text = os.environ.get(option.variable)
            if not text or option.dest in given or option.group in groups:
                continue
            result[option.dest] = one = Given(option, option.variable)
            for line in filter(None, text.split("\n")) if option.repeats else [text]:
                one.add(line)
        return result

    def unknown(self, word: str, is_elsewhere: Callable[[str], bool]) -> str:
        name = word[2:] if word.startswith("--") else ""
        if name and is_elsewhere(name):
            return f"option '{word}' does not apply to '{self.name}'; {self.see_help}"
        known = {option.name: option for option in self.options}
        meant = nearest(name, known) if name else None
        meaning = f"; did you mean '{known[meant].usage}'?" if meant else ""
        return f"unknown option '{word}'{meaning} ({self.see_help})"


def nearest(word: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that a misspelt word means, if one is near enough."""

    names = list(names)
    longer = [name for name in names if len(word) > 1 and name.startswith(word)]
    return next(iter(longer or difflib.get_close_matches(word, names, 1, cutoff)), None)


def only(words: list[str], takes: str) -> str:
    """The word of a command that takes one. `takes`, for the message: `'inspect' takes one FILE`."""
    if len(words) != 1:
        got = f", got '{' '.join(words)}'" if words else ""
        raise UsageError(takes + got)
    return words[0]
