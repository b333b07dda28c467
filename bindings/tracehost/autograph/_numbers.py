"""Augmented assignment."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

Operation = Callable[[Any, Any], Any]

_OPERATIONS: dict[str, Operation] = {
    "+": operator.iadd,
    "-": operator.isub,
    "*": operator.imul,
    "/": operator.itruediv,
    "//": operator.ifloordiv,
    "%": operator.imod,
    "**": operator.ipow,
    "@": operator.imatmul,
    "&": operator.iand,
    "|": operator.ior,
    "^": operator.ixor,
    "<<": operator.ilshift,
    ">>": operator.irshift,
}


def in_place(sign: str, target: Any, value: Any) -> Any:
    """What Python's `target sign= value` assigns."""
    return _OPERATIONS[sign](target, value)
