"""Changes in place that a block makes to Python containers: a graph would not repeat them."""

from __future__ import annotations

import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from torch.utils._pytree import tree_leaves

from ..._tracehost import reaches
from .snapshots import KINDS, Snapshot, cells, items, snapshots
from .state import is_tensor
from .where import line, reject

_MOST = 10_000  # items that are compared


class _Bodies(threading.local):
    """Of loops that are staged now, one in the other."""

    under_way = 0
    growing: Grows | None = None  # raised and not handled yet: the user's code may have caught it

    def __enter__(self) -> None:
        if not self.under_way:
            self.growing = None
        self.under_way += 1

    def __exit__(self, *_: Any) -> None:
        self.under_way -= 1


bodies = _Bodies()


class Grows(Exception):
    """A loop's body appends tensors to a list of the function's own: it has to be a list of the graph."""

    def __init__(self, cell: types.CellType, items: list[Any], dtype: Any) -> None:
        super().__init__()
        self.cell, self.items, self.dtype = cell, items, dtype
        bodies.growing = self


# A WeakSet runs Python code when one ends, which drops a Ctrl-C that comes there.
_all: set[weakref.ref[Containers]] = set()


def _alive() -> list[Containers]:
    found = [(reference, reference()) for reference in list(_all)]
    _all.difference_update(reference for reference, one in found if one is None)
    return [one for _, one in found if one is not None]


class Containers:
    """What the blocks' code reaches: variables, what they hold, globals."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self._before: dict[int, Snapshot] = {}
        self._cells: dict[int, types.CellType] = {}
        self.reached: list[Any] = []  # objects that were there before the block
        _alive()
        _all.add(weakref.ref(self))
        for function in functions:
            self._cells |= {id(v): cell for _, cell, v in cells(function) if type(v) is list}
            for snapshot in snapshots(function, _MOST, self.reached):
                self._before.setdefault(id(snapshot.of), snapshot)

    def growing(self) -> Grows | None:
        """A list that nothing but a variable holds, with tensors appended: taken off again."""
        for snapshot in self._before.values():
            container, before = snapshot.of, snapshot.state
            cell = self._cells.get(id(container))
            new = container[len(before) :] if type(container) is list else []
            if cell is None or not new or not all(is_tensor(x) for x in new):
                continue
            kept = all(a is b for a, b in zip(container, before))
            # The cell, the snapshots of all blocks, our variable, the question.
            known = 3 + sum(id(container) in c._before for c in _alive())
            if kept and not reaches(container) and sys.getrefcount(container) <= known:
                del container[len(before) :]
                return Grows(cell, list(before), new[0].dtype)
        return None

    def held(self) -> Iterator[Sequence[Any]]:
        """What the snapshots hold."""
        for snapshot in self._before.values():
            yield (snapshot.of,)
            yield snapshot.state

    def knows(self, container: Any) -> bool:
        """Whether it was there before the block."""
        return id(container) in self._before

    def changed(self) -> list[Snapshot]:
        """Those of the body's own that are not as they were. The state has been restored before."""
        return [s for s in self._before.values() if s.is_changed() and not reaches(s.of)]

    def changed_anywhere(self) -> list[Snapshot]:
        """Those from outside the body, too."""
        return [s for s in self._before.values() if s.is_changed()]

    def has_changed(self) -> bool:
        """Whether one is not as it was that a later call would find so. The state has been restored before."""
        return any(not _is_log(s) for s in self.changed_anywhere())

    def restore(self) -> None:
        """The block is unsupported, and the body continues without a trace: nothing has run for real."""
        for snapshot in self.changed():
            if snapshot.can_be_restored():
                snapshot.restore()

    def undo(self) -> list[Snapshot]:
        """All is as it was before the block, but for those that are returned: nothing restores them."""
        changed = self.changed_anywhere()
        for snapshot in changed:
            if snapshot.can_be_restored():
                snapshot.restore()
        return [one for one in changed if not one.can_be_restored()]

    def check(self, what: str) -> None:
        """Raises if one is not as it was. The state has been restored before."""
        for snapshot in self.changed_anywhere():
            if not _is_log(snapshot):
                reject_change(snapshot, what)


def _is_log(snapshot: Snapshot) -> bool:
    """It outlives the trace, and gets no tensors: it changes at the trace only."""
    if not reaches(snapshot.of) or not isinstance(snapshot.of, KINDS):
        return False
    known = {id(x) for x in snapshot.state}
    new = [x for x in items(snapshot.of) if id(x) not in known]
    return not any(is_tensor(x) for x in tree_leaves(new))


def reject_change(snapshot: Snapshot, what: str) -> NoReturn:
    reject(
        f"{what} at {line()} changes {snapshot.text()} in place, which a graph can't do. "
        "Collect tensors in a tracehost.TensorArray, assign variables in its place, or change it "
        "outside of the branch or loop."
    )
