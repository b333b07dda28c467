"""Changes in place that a block makes to Python containers: a graph would not repeat them."""

from __future__ import annotations

import collections
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils._pytree import tree_leaves

from .._tracehost import reaches
from ._state import is_tensor
from ._undefined import is_undefined
from ._where import line, refuse

_KINDS = (list, dict, set, collections.deque)
_MOST = 10_000  # items that are compared
_OPAQUE = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    str,
    bytes,
    int,
    float,
)


def _items(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return [x for pair in container.items() for x in pair]
    return list(container)


def _found(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _KINDS):
        yield name, value
    elif not isinstance(value, _OPAQUE) and not is_undefined(value):
        for attribute, inner in list(getattr(value, "__dict__", {}).items()):
            if isinstance(inner, _KINDS):
                yield f"{name}.{attribute}", inner


def _reached(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            yield from _found(name, cell.cell_contents)
        except ValueError:
            continue  # not assigned yet
    for name in code.co_names:
        if name in function.__globals__:
            value = function.__globals__[name]
            if isinstance(value, _KINDS):
                yield name, value


def _lists(function: Callable[..., Any]) -> dict[int, types.CellType]:
    """The variables around it that hold a list."""
    code = getattr(function, "__code__", None)
    found = {}
    for cell in (getattr(function, "__closure__", None) or ()) if code is not None else ():
        try:
            if type(cell.cell_contents) is list:
                found[id(cell.cell_contents)] = cell
        except ValueError:
            continue  # not assigned yet
    return found


class _Bodies(threading.local):
    """Of loops that are staged now, one in the other."""

    under_way = 0

    def __enter__(self) -> None:
        self.under_way += 1

    def __exit__(self, *_: Any) -> None:
        self.under_way -= 1


bodies = _Bodies()


class Grows(Exception):
    """A loop's body appends tensors to a list of the function's own: it has to be a list of the graph."""

    def __init__(self, cell: types.CellType, items: list[Any], dtype: Any) -> None:
        super().__init__()
        self.cell, self.items, self.dtype = cell, items, dtype


_all: weakref.WeakSet[Containers] = weakref.WeakSet()


class Containers:
    """What the blocks' code reaches: variables, their attributes, globals."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self._before: dict[int, tuple[str, Any, list[Any]]] = {}
        self._cells: dict[int, types.CellType] = {}
        _all.add(self)
        for function in functions:
            self._cells |= _lists(function)
            for name, container in _reached(function):
                if id(container) not in self._before and len(container) <= _MOST:
                    self._before[id(container)] = (name, container, _items(container))

    def growing(self) -> Grows | None:
        """A list that nothing but a variable holds, with tensors appended: taken off again."""
        for _name, container, before in self._before.values():
            cell = self._cells.get(id(container))
            new = container[len(before) :] if type(container) is list else []
            if cell is None or not new or not all(is_tensor(x) for x in new):
                continue
            kept = all(a is b for a, b in zip(container, before))
            # The cell, the tuple of each snapshot, our variable, the question.
            known = 3 + sum(id(container) in c._before for c in list(_all))
            if kept and not reaches(container) and sys.getrefcount(container) <= known:
                del container[len(before) :]
                return Grows(cell, list(before), new[0].dtype)
        return None

    def check(self, what: str) -> None:
        """Refuses if one is not as it was. The state has been set back before."""
        for name, container, before in self._before.values():
            now = _items(container)
            if len(now) == len(before) and all(a is b for a, b in zip(now, before)):
                continue
            known = {id(x) for x in before}
            new = [x for x in now if id(x) not in known]
            if reaches(container) and not any(is_tensor(x) for x in tree_leaves(new)):
                continue  # a log that outlives the trace: it changes at the trace only
            kind = type(container).__name__
            refuse(
                f"{what} at {line()} changes the {kind} '{name}' in place, which a graph can't do. "
                "Collect tensors in a tracehost.TensorArray, assign variables in its place, or change it "
                "outside of the branch or loop."
            )
