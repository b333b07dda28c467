"""The lists of faults, read from the .toml files of this folder."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: list[str]
    on: str = "cpu"

    def applied(self, source: str) -> str:
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has `{self.old}` not once")
        return source.replace(self.old, self.new)


def all_mutants() -> list[Mutant]:
    return [
        Mutant(**one)
        for file in sorted(Path(__file__).parent.glob("*.toml"))
        for one in tomllib.loads(file.read_text())["mutant"]
    ]
