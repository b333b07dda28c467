"""Options as the binary hands them over, `--name=value`, into the fields of a dataclass."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from .errors import UsageError

T = TypeVar("T")

_WHAT = {"int": "a non-negative integer", "float": "a non-negative number"}


def read(kind: type[T], words: list[str]) -> T:
    """An instance of a dataclass whose fields are the options. Their annotations, as text, say what they
    take: bool (nothing), `str | None`, `int | None`, `float`, `list[str]` ..."""
    fields = {field.name: str(field.type).split(" | ")[0] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for word in words:
        option, _, value = word.partition("=")
        name = option[2:].replace("-", "_")
        takes = fields[name]
        if takes == "bool":
            values[name] = True
        elif takes == "list[str]":
            values.setdefault(name, []).append(value)
        else:
            values[name] = _number(option, takes, value) if takes in _WHAT else value
    return kind(**values)


def only(words: list[str], takes: str) -> str:
    """The word of a command that takes one. `takes`, for the message: `'inspect' takes one FILE`."""
    if len(words) != 1:
        got = f", got '{' '.join(words)}'" if words else ""
        raise UsageError(takes + got)
    return words[0]


def _number(option: str, takes: str, value: str) -> int | float:
    try:
        number = int(value) if takes == "int" else float(value)
    except ValueError:
        number = -1
    if number < 0 or number != number:
        raise UsageError(f"{option} takes {_WHAT[takes]}, got '{value}'")
    return number
