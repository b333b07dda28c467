"""What a block's code could change besides its variables, as it was before the block.

Found from the variables around the code: containers, and what they hold; attributes of objects that the body has
made; how far an iterator is. What the function was given is compared no deeper than its containers: stores to it are
observed (`stores.py`).
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..._tracehost import reaches

KINDS = (list, dict, set, collections.deque)
_OPAQUE = (
    *(type, types.ModuleType, types.BuiltinFunctionType, torch.Tensor),
    *(str, bytes, int, float, complex, type(None)),
)
_ITERATORS = (
    types.GeneratorType,
    enumerate,
    zip,
    map,
    filter,
    reversed,
    *(type(iter(made)) for made in ((), [], {}, {}.items(), {}.values(), set(), range(1), "", "ä")),
)
_ABSENT = object()


class Snapshot:
    """Of one container, object or iterator."""

    def __init__(self, name: str, of: Any) -> None:
        self.name, self.of = name, of
        self.state = _state(of)

    def is_changed(self) -> bool:
        now = _state(self.of)
        return len(now) != len(self.state) or any(map(_differ, self.state, now))

    def can_be_restored(self) -> bool:
        return type(self.of) in KINDS or not isinstance(self.of, (*KINDS, *_ITERATORS))

    def restore(self) -> None:
        """Requires: can_be_restored()."""
        of, state = self.of, self.state
        if isinstance(of, list):
            of[:] = state
        elif isinstance(of, dict):
            of.clear()
            of.update(zip(state[::2], state[1::2]))
        elif isinstance(of, set):
            of.clear()
            of.update(state)
        elif isinstance(of, collections.deque):
            of.clear()
            of.extend(state)
        else:
            _set_attributes(of, dict(zip(state[::2], state[1::2])))

    def text(self) -> str:
        """`the list 'out'`, `'self.count'`"""
        if isinstance(self.of, KINDS):
            return f"the {type(self.of).__name__} '{self.name}'"
        if isinstance(self.of, _ITERATORS):
            return f"the iterator '{self.name}'"
        before = dict(zip(self.state[::2], self.state[1::2]))
        now = attributes(self.of)
        names = [n for n in (*before, *now) if before.get(n, _ABSENT) is not now.get(n, _ABSENT)]
        return f"'{self.name}.{names[0]}'"


def snapshots(function: Callable[..., Any], most: int, reached: list[Any]) -> Iterator[Snapshot]:
    """Snapshots of what the variables around `function` hold, and of globals; none with over `most` items.

    `reached` gets what else they lead to: files, arrays, iterators.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return
    seen: dict[int, Any] = {}  # keeps them alive
    todo = collections.deque(_variables(function))
    while todo and len(seen) < most:
        name, value = todo.popleft()
        ours = type(value).__module__.startswith("tracehost.")
        if ours or isinstance(value, _OPAQUE) or id(value) in seen:
            continue
        seen[id(value)] = value
        if not isinstance(value, (*KINDS, tuple)):
            reached.append(value)
        if isinstance(value, KINDS):
            if len(value) <= most:
                yield Snapshot(name, value)
                todo += _elements(name, value)
        elif isinstance(value, tuple):
            todo += [(f"{name}[{i}]", x) for i, x in enumerate(value)]
        elif reaches(value):
            given = getattr(value, "__dict__", {}).items()
            todo += [(f"{name}.{n}", x) for n, x in list(given) if isinstance(x, KINDS)]
        elif isinstance(value, _ITERATORS):
            yield Snapshot(name, value)
        elif isinstance(value, types.FunctionType):
            todo += _variables(value)
        elif isinstance(value, types.MethodType):
            todo += [(name, value.__self__), (name, value.__func__)]
        elif found := attributes(value):
            yield Snapshot(name, value)
            todo += [(f"{name}.{n}", x) for n, x in found.items()]
    for name in code.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, KINDS) and id(value) not in seen and len(value) <= most:
            yield Snapshot(name, value)


def cells(function: Callable[..., Any]) -> Iterator[tuple[str, types.CellType, Any]]:
    """The variables around a function that are assigned: name, cell and what it holds."""
    code = getattr(function, "__code__", None)
    for name, cell in zip(code.co_freevars, function.__closure__ or ()) if code else ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        yield name, cell, held


def _variables(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    return ((name, held) for name, _, held in cells(function))


def _elements(name: str, container: Any) -> list[tuple[str, Any]]:
    if isinstance(container, dict):
        return [(f"{name}[{key!r}]", x) for key, x in list(container.items())]
    return [(f"{name}[{i}]", x) for i, x in enumerate(list(container))]


def attributes(value: Any) -> dict[str, Any]:
    """The attributes in `__dict__` and slots of an object whose class is written in Python."""
    if not type(value).__flags__ & _HEAP_TYPE:
        return {}
    found = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if type(member) is types.MemberDescriptorType:
                try:
                    found[name] = member.__get__(value)
                except AttributeError:
                    continue
    return found


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def _set_attributes(value: Any, wanted: dict[str, Any]) -> None:
    for name in attributes(value):
        if name not in wanted:
            object.__delattr__(value, name)
    for name, x in wanted.items():
        if attributes(value).get(name, _ABSENT) is not x:
            object.__setattr__(value, name, x)


def items(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return [x for pair in container.items() for x in pair]
    return list(container)


def _state(of: Any) -> list[Any]:
    if isinstance(of, KINDS):
        return items(of)
    if isinstance(of, _ITERATORS):
        return _position(of)
    return [x for pair in attributes(of).items() for x in pair]


def _position(iterator: Any) -> list[Any]:
    """How far it is: no two positions of one iterator are equal."""
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        if frame is None:
            return [None]
        inner = [x for x in frame.f_locals.values() if isinstance(x, _ITERATORS)]
        return [frame.f_lasti, *(x for i in inner for x in _position(i))]
    hint = getattr(type(iterator), "__length_hint__", None)
    if hint is not None:
        return [hint(iterator)]
    parts = iterator.__reduce__()[1]
    flat: list[Any] = []
    for part in parts:
        flat += _position(part) if isinstance(part, _ITERATORS) else [part]
    return flat


def _differ(before: Any, now: Any) -> bool:
    if before is now:
        return False
    plain = type(before) is type(now) and type(before) in (bool, int, float, str)
    return not plain or before != now
