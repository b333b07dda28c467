"""Traced numbers that a body has put where no slot reports them: Python's numbers take their places."""

from __future__ import annotations

import gc
from collections import deque
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any

_DEEPEST = 20  # tuples in tuples
_ARGS: Any = vars(BaseException)["args"]


def replace(numbers: list[Any], values: list[Any]) -> None:
    """In all that refers to `numbers` each becomes the value of the same index."""
    _replace(numbers, {id(n): value for n, value in zip(numbers, values)}, 0)


def _replace(old: list[Any], new: dict[int, Any], depth: int) -> None:
    tuples: list[Any] = []
    for holder in gc.get_referrers(*old):
        if holder is old or holder is tuples:
            continue
        if isinstance(holder, tuple):  # it can't be changed: what refers to it gets another one
            new[id(holder)] = tuple.__new__(type(holder), (new.get(id(v), v) for v in holder))
            tuples.append(holder)
        else:
            _replace_in(holder, new)
    if tuples and depth < _DEEPEST:
        _replace(tuples, new, depth + 1)


def _replace_in(holder: Any, new: dict[int, Any]) -> None:
    if isinstance(holder, (list, deque)):
        for i, v in enumerate(tuple(holder)):
            if id(v) in new:
                (list if isinstance(holder, list) else deque).__setitem__(holder, i, new[id(v)])
    elif isinstance(holder, dict):
        _refill(dict, holder, [(new.get(id(k), k), new.get(id(v), v)) for k, v in holder.items()])
    elif isinstance(holder, set):
        _refill(set, holder, [new.get(id(v), v) for v in holder])
    elif isinstance(holder, CellType):
        holder.cell_contents = new.get(id(holder.cell_contents), holder.cell_contents)
    elif isinstance(holder, FunctionType):
        holder.__defaults__ = new.get(id(holder.__defaults__), holder.__defaults__)
    else:
        _replace_attributes(holder, new)


def _refill(kind: Any, holder: Any, items: list[Any]) -> None:
    """The items keep their order, and a traced number is asked for no hash."""
    kind.clear(holder)
    kind.update(holder, items)


def _replace_attributes(holder: Any, new: dict[int, Any]) -> None:
    attributes = getattr(holder, "__dict__", None)
    if type(attributes) is dict:
        for name, v in tuple(attributes.items()):
            if id(v) in new:
                attributes[name] = new[id(v)]
    is_error = isinstance(holder, BaseException)
    for kind in type(holder).__mro__:
        if is_error or "__slots__" in vars(kind):
            for slot in vars(kind).values():
                if type(slot) is MemberDescriptorType or slot is _ARGS:
                    v = _get(slot, holder)
                    if id(v) in new:
                        slot.__set__(holder, new[id(v)])


def _get(slot: Any, holder: Any) -> Any:
    try:
        return slot.__get__(holder)
    except AttributeError:  # it is empty
        return None
