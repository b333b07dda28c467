"""How a cell of a notebook ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .streams import plain


@dataclass
class Outcome:
    """How a cell ended."""

    kind: str
    """`"ok"`, `"error"`, `"exit"` (the notebook wants to end here), `"timeout"`, `"died"`, `"interrupted"`
    or `"terminated"`"""
    name: str = ""
    """error: the exception's"""
    value: str = ""
    """error: its text; died: of what"""
    line: int | None = None
    """error: of the cell"""
    statistics: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"{self.name}: {self.value}" if self.value else self.name


def outcome_of_error(name: str, value: str, traceback: list[str], count: int | None) -> Outcome:
    """An exception that left a cell. SystemExit without a code, or with 0, ends the notebook well."""
    if name == "SystemExit" and value in ("", "0", "None"):
        return Outcome("exit")
    if name == "KeyboardInterrupt":
        return Outcome("interrupted", name, value)
    return Outcome("error", name, value, _line(traceback, count))


def _line(traceback: list[str], count: int | None) -> int | None:
    """The line of the cell in IPython's traceback: `Cell In[3], line 2`."""
    text = plain("\n".join(traceback))
    found = re.findall(rf"Cell In\s?\[{count}\], line (\d+)", text)
    return int(found[0]) if found else None
