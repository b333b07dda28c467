"""A table of programs, each by the name of the function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Programs(dict[str, Callable[[], Any]]):
    """`programs = Programs()`, and `@programs.add` above each function."""

    def add(self, make: Callable[[], Any]) -> Callable[[], Any]:
        self[make.__name__] = make
        return make
