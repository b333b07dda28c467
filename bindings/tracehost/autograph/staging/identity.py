"""Which lists and dicts of a block's variables are one object.

A block's results are put into new containers. `r = [a, a]` holds one list twice, and so does what is put together
behind the block: each container has a key, its first place among all the variables.

    a = [x * i]          places (0, 0): a;  (1, 0): r;  (1, 1), (1, 2): the elements of r
    r = [a, a]           keys   (0, 0)      (1, 0)      (0, 0), (0, 0)
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ..._arguments.trees import Spec
from ..._tracehost import is_given, reaches
from .state import MUTABLE, Parts

Key = tuple[int, int]  # a variable's number, and that of a container in it


def keys_of(variables: Sequence[Parts]) -> list[list[Key | None]]:
    """For each container of each variable; None for one that can't be changed."""
    first: dict[int, Key] = {}
    return [
        [
            first.setdefault(id(container), (v, i)) if type(container) in MUTABLE else None
            for i, container in enumerate(parts.containers)
        ]
        for v, parts in enumerate(variables)
    ]


def kept(before: Sequence[Any], now: Sequence[Any]) -> dict[int, Any]:
    """Of containers in the same places those that are the same objects, by place."""
    pairs = enumerate(zip(before, now))
    return {i: a for i, (a, b) in pairs if a is b and type(a) in MUTABLE}


def is_rebound(
    before: Callable[[], Sequence[Any]],
    now: Sequence[Any],
    knows: Callable[[Any], bool],
    shared: set[int],
) -> bool:
    """Whether a container of `now` was there before the block, and something else than the variable holds it.

    `before`: the variable's containers then. `knows`: whether the block's code reaches a container. `shared`: what
    shared() has found.
    """
    old = [x for x in now if type(x) in MUTABLE and (knows(x) or _is_held(x))]
    if not old:
        return False
    own = {id(container) for container in before()}
    return any(id(x) not in own or id(x) in shared or _is_held(x) for x in old)


def _is_held(container: Any) -> bool:
    """Whether what is outside of the body holds it, too."""
    return reaches(container) or is_given(container)


class Holder(Protocol):
    """A block that is staged."""

    def held(self) -> Iterable[Sequence[Any]]:
        """The sequences of its own that refer to the variables' containers."""
        ...


class _Blocks(threading.local):
    """Blocks that are staged now, the outer one first: each holds the variables' values before it."""

    def __init__(self) -> None:
        self.holders: list[Holder] = []

    def run(self, holder: Holder, function: Callable[..., Any], *arguments: Any) -> Any:
        self.holders.append(holder)
        try:
            return function(*arguments)
        finally:
            self.holders.pop()


blocks = _Blocks()


def _references_of_blocks() -> dict[int, int]:
    """How often the blocks around hold each object, by its id."""
    count: dict[int, int] = {}
    for holder in blocks.holders:
        for sequence in holder.held():
            for value in sequence:
                count[id(value)] = count.get(id(value), 0) + 1
    return count


def shared(state: tuple[Any, ...]) -> set[int]:
    """The ids of lists and dicts that something else than the variables holds.

    Requires: no snapshot of the block's variables holds them yet.
    """
    found: dict[int, Any] = {}
    expected: dict[int, int] = {}  # references

    # A function that calls itself would be a cycle, and hold the containers until the cycle is collected.
    waiting = [(value, _OF_A_VARIABLE) for value in state]
    while waiting:
        value, references = waiting.pop()
        kind = type(value)
        if kind not in MUTABLE and not issubclass(kind, tuple):
            continue
        expected[id(value)] = expected.get(id(value), 0) + references
        if id(value) not in found:
            found[id(value)] = value
            waiting += [(part, 1) for part in (value.values() if issubclass(kind, dict) else value)]
    value = None
    around = _references_of_blocks() if blocks.holders else {}
    return {
        key
        for key in found
        if type(found[key]) in MUTABLE
        and sys.getrefcount(found[key]) > expected[key] + around.get(key, 0) + _OF_THE_QUESTION
    }


_OF_A_VARIABLE = 2  # its cell, the tuple
_OF_THE_QUESTION = 2


def spans(spec: Spec) -> list[range]:
    """For each container the leaves in it."""
    found: list[range] = []

    def walk(node: Spec, first: int) -> int:
        if node.kind is None:
            return first + 1
        at, end = len(found), first
        found.append(range(0))
        for child in node.children:
            end = walk(child, end)
        found[at] = range(first, end)
        return end

    walk(spec, 0)
    return found
