"""What a staged block stores in code that it calls (`self.bad = 0` in a method): more variables of the block.

The block's own assignments are its state, which is restored behind the block. Each other slot that then holds
another value is restored, too. Behind an if, the slot gets what the branches leave in it, joined as a variable is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..._traced.traced_number import TracedNumber
from ..._tracehost import BlockStore, begin_block, end_block, in_block
from ..conversion.undefined import Undefined
from .state import Parts, is_number, is_tensor, same, take_apart

_ABSENT = Undefined("a slot")


class BlockStores:
    """Of one block; begins with it."""

    def __init__(self) -> None:
        self._begin = begin_block()
        self.found: dict[Any, BlockStore] = {}
        self._taken: list[Any] = []

    def take(self) -> Iterator[Parts]:
        """In the block, at its end: the parts of each value."""
        for store in in_block(self._begin, _ABSENT):
            if store.is_slot:
                self._taken.append(store.key)
                yield take_apart(store.now)

    def place(self, key: Any) -> int | None:
        """Which one of take() it was."""
        return self._taken.index(key) if key in self.found else None

    def end(self, real: bool) -> None:
        """Behind the block and its state. What can't be joined stays where it ran for real."""
        self.found = {store.key: store for store in in_block(self._begin, _ABSENT)}
        end_block(self._begin, not real or self.can_be_joined())

    def set_again(self) -> None:
        """Behind end(): the block is part of what is around it, and what it stores stays."""
        if self.can_be_joined():
            for store in self.found.values():
                store.set(store.now)

    def drop(self, restore: bool = True) -> None:
        """The block is no part of the trace."""
        end_block(self._begin, restore)

    def can_be_joined(self) -> bool:
        return all(_can_be_joined(store) for store in self.found.values())

    def first(self) -> str:
        """For messages: `self.bad at net.py:9`."""
        store = next(iter(self.found.values()))
        return f"{store.path} at {store.where}"


def _can_be_joined(store: BlockStore) -> bool:
    before, now = store.before, store.now
    return store.is_slot and (same(before, now) or (_is_value(before) and _is_value(now)))


def _is_value(value: Any) -> bool:
    """A number of the block is no longer known as one."""
    return is_tensor(value) or is_number(value) or type(value) is TracedNumber
