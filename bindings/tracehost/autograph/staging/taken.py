"""What Python code takes away from where it was: the next item of an iterator, a line of a file, a random number. What it
changes where nothing restores it: a bytearray.

Problem: an attempt to stage a loop, or a side without data, runs the user's code and is undone. What it took then is
gone, and a staged loop would take once for all turns. Answer: the attempt ends before it takes. Python runs the loop, and
the condition of the `if` is checked.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from types import GeneratorType
from typing import Any

from ..._errors import ImpureSide
from .attempts import ImpureBody
from .branches import fake_sides
from .containers import bodies
from .where import line

_SOURCES = (GeneratorType, io.IOBase, random.Random)
_SETS = ("append", "extend", "insert", "pop", "remove", "clear", "reverse")


def takes(function: Any) -> bool:
    """Whether a call of it takes something away: `next`, a method of a generator, a file or random.Random."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, bytearray):
        return getattr(function, "__name__", None) in _SETS
    return function is next or isinstance(owner, _SOURCES)


def taking(function: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which is `function` or stands for it, where nothing is tried out."""

    def take(*args: Any, **options: Any) -> Any:
        if fake_sides.under_way or bodies.under_way:
            name = getattr(function, "__name__", "a function")
            kind = ImpureSide if fake_sides.under_way else ImpureBody
            does = "changes" if name in _SETS else "takes from"
            raise kind(f"calls {name}(), which {does} an object of Python's, at {line()}")
        return call(*args, **options)

    return take
