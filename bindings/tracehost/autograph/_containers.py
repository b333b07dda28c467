"""Changes in place that a block makes to Python containers: a graph would not repeat them."""

from __future__ import annotations

import collections
import types
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


class Containers:
    """What the blocks' code reaches: variables, their attributes, globals."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self._before: dict[int, tuple[str, Any, list[Any]]] = {}
        for function in functions:
            for name, container in _reached(function):
                if id(container) not in self._before and len(container) <= _MOST:
                    self._before[id(container)] = (name, container, _items(container))

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
