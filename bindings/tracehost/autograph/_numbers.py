"""Augmented assignment where the target may be a tensor that is a Python number to the user."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ._state import is_marked, is_tensor, mark_number

Operation = Callable[[Any, Any], Any]

# sign: in place, and as a new value
_OPERATIONS: dict[str, tuple[Operation, Operation]] = {
    "+": (operator.iadd, operator.add),
    "-": (operator.isub, operator.sub),
    "*": (operator.imul, operator.mul),
    "/": (operator.itruediv, operator.truediv),
    "//": (operator.ifloordiv, operator.floordiv),
    "%": (operator.imod, operator.mod),
    "**": (operator.ipow, operator.pow),
    "@": (operator.imatmul, operator.matmul),
    "&": (operator.iand, operator.and_),
    "|": (operator.ior, operator.or_),
    "^": (operator.ixor, operator.xor),
    "<<": (operator.ilshift, operator.lshift),
    ">>": (operator.irshift, operator.rshift),
}


def in_place(sign: str, target: Any, value: Any) -> Any:
    """What Python's `target sign= value` assigns."""
    return _OPERATIONS[sign][0](target, value)


def aug(sign: str, target: Any, value: Any) -> Any:
    """What `target sign= value` assigns."""
    if not is_marked(target):
        return in_place(sign, target, value)
    result = _OPERATIONS[sign][1](target, value)
    return mark_number(result) if is_tensor(result) and result.dim() == 0 else result
