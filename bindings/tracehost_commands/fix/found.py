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


class Found(NamedTuple):
    """Of one definition."""

    fixes: list[Fix]
    see: list[str]  # where to look for each cause that has no fix: `train.py:12: what sets 'lr'`

    @property
    def saves(self) -> int:
        return sum(one.saves for one in self.fixes)


def read(folder: str) -> list[Found]:
    """What all processes left in the folder. Of a definition of several, those of the one that saves most.

    Raises:
        CommandError: there are none, or a file was cut off.
    """
    files = sorted(glob.glob(os.path.join(glob.escape(folder), "*.json")))
    if not files:
        raise CommandError(
            "the program never imported tracehost, or was ended from outside, so nothing was traced. Write "
            "@tracehost.function above a function that is called often, or try one as it is: tracehost --trace "
            "__main__:FUNCTION SCRIPT.py"
        )
    best: dict[Line, Found] = {}
    for file in files:
        for data in _content(file):
            definition = Line(data["file"], data["line"])
            found = of_definition(data)
            if definition not in best or found.saves > best[definition].saves:
                best[definition] = found
    return [found for _, found in sorted(best.items())]


def of_definition(data: dict[str, Any]) -> Found:
    definition = Line(data["file"], data["line"])
    fixes = [
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
    return Found(fixes, [f"{data['name']} ({data['place']}): {one}" for one in data["see"]])


def _content(file: str) -> list[dict[str, Any]]:
    try:
        with open(file, encoding="utf-8") as text:
            return json.load(text)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it was cut off"
        raise CommandError(
            f"{file} cannot be read: {why}; make room there, or set TMPDIR"
        ) from None
