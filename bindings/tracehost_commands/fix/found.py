"""The fixes of a run."""

from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import CommandError


class Line(NamedTuple):
    file: str
    line: int


@dataclass(frozen=True)
class Fix:
    """One fix of one definition (tracehost/_reports/words/fixes.py)."""

    name: str  # of the Function
    definition: Line
    place: str  # `train.py:12`
    text: str
    saves: int
    counted: int
    together: bool
    options: dict[str, str]
    passes: dict[str, str]
    begins: str
    calls: list[Line]

    @property
    def claim(self) -> str:
        """`train.py:12: saves 4 of 5 traces`"""
        others = ", with the other fixes" if self.together else ""
        plural = "" if self.counted == 1 else "s"
        return f"{self.place}: saves {self.saves} of {self.counted} trace{plural}{others}"


def read(folder: str) -> list[Fix]:
    """Those that all processes left in the folder. Of a definition of several, those of the one that saves most.

    Raises:
        CommandError: there are none, or a file was cut off.
    """
    files = sorted(glob.glob(os.path.join(glob.escape(folder), "*.json")))
    if not files:
        raise CommandError(
            "no process of the program wrote its fixes: import tracehost in it, and let it end by itself"
        )
    best: dict[Line, list[Fix]] = {}
    for file in files:
        for fixes in map(of_definition, _content(file)):
            known = best.get(fixes[0].definition, [])
            if sum(one.saves for one in fixes) > sum(one.saves for one in known):
                best[fixes[0].definition] = fixes
    return [one for _, fixes in sorted(best.items()) for one in fixes]


def of_definition(data: dict[str, Any]) -> list[Fix]:
    definition = Line(data["file"], data["line"])
    return [
        Fix(
            **{
                **one,
                "name": data["name"],
                "definition": definition,
                "place": data["place"],
                "calls": [Line(*call) for call in one["calls"]],
            }
        )
        for one in data["fixes"]
    ]


def _content(file: str) -> list[dict[str, Any]]:
    try:
        with open(file, encoding="utf-8") as text:
            return json.load(text)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it was cut off"
        raise CommandError(
            f"{file} cannot be read: {why}; make room there, or set TMPDIR"
        ) from None
