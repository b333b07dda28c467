"""if on a traced tensor: a `prim::If` with both branches.

The branch that is taken runs for real, the other one on fake tensors. A variable
that both leave as it was needs nothing; two tensors become one result of the If; numbers that differ become
traced numbers. What can't be joined is an error only where it is used (`join.py`).

A condition that follows from counters and the like alone is not staged: the graph checks it before all
effects, and another graph serves where it is not so. Such branches print, append and store as they like.

An exception that the branch not taken raises becomes part of the graph: raised when that branch is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import torch

from ..._errors import Error, ValueReadError
from ..._traced.fake_tensors import needs_data
from ..._tracehost import (
    Branches,
    abandoned,
    abandons,
    can_be_checked,
    forgive_rejection,
    has_unknown_sizes,
    is_storing,
    may_check,
    note_storing,
    repeat_rejection,
    serves_once,
    sizes_now,
    traces_reads,
    without_data,
)
from ..conversion.undefined import ld
from .containers import Containers, Grows, reject_change
from .containers import bodies as loop_bodies
from .join import ELSE, THEN, Join, Outcome, State, Thunk, extend, number
from .snapshots import Snapshot
from .state import as_number, as_tensor, is_own, kind, take_apart
from .stores import BlockStores
from .where import check_not_caught, described, line, raised_by_statement, reject, reject_if_caught


def stage(
    cond: torch.Tensor,
    bodies: tuple[Thunk, Thunk],
    get_state: Callable[[], State],
    set_state: Callable[[State], None],
    names: tuple[str, ...],
    what: str,
    sources: tuple[Thunk, ...] = (),
) -> None:
    """An if whose condition is traced. `sources`: the user's code, where `bodies` only call it."""
    if can_be_checked(cond):
        bodies[THEN if cond else ELSE]()
        return
    where = line()
    cond = as_tensor(cond)
    check_condition(cond, what, where)
    if is_storing(where) and may_check():
        bodies[checked(cond)]()
        return
    _If(cond, bodies, get_state, set_state, names, what, where, sources).run()


class _If:
    """One if, whose branches are staged."""

    def __init__(
        self,
        cond: torch.Tensor,
        bodies: tuple[Thunk, Thunk],
        get_state: Callable[[], State],
        set_state: Callable[[State], None],
        names: tuple[str, ...],
        what: str,
        where: str,
        sources: tuple[Thunk, ...],
    ) -> None:
        self.cond, self.bodies, self.names = cond, bodies, names
        self.get_state, self.set_state = get_state, set_state
        self.what, self.where = what, where
        self.branches = Branches(cond)
        self.chosen = self.branches.condition  # None: not known
        self.before = get_state()
        self.containers = Containers(*(sources or bodies))
        self.outcomes: dict[int, Outcome] = {}
        self.began = self.ended = False  # the body of the branch that is taken
        self.stored: BlockStores | None = None  # by that one

    def run(self) -> None:
        try:
            # The one that is not taken comes first: if it can't be staged, nothing has run for real.
            for branch in (ELSE, THEN) if self.chosen else (THEN, ELSE):
                if not self._stage(branch):
                    return
            self._join()
        except Exception:
            if without_data() or self.began != self.ended or not abandons():
                raise
            self._end_as_python()

    def _end_as_python(self) -> None:
        """The if is unsupported, and the body continues without a trace."""
        if not self.began:
            self.set_state(self.before)
            self.containers.restore()
            self._run_taken()
            return
        taken = self.outcomes.get(THEN if self.chosen else ELSE)
        if taken is not None:
            self.set_state(taken.state)
        if self.stored is not None:
            self.stored.set_again()

    def _run_taken(self) -> None:
        """For real, outside of a block."""
        self.began = True
        self.bodies[THEN if self.chosen else ELSE]()
        self.ended = True

    def _stage(self, branch: int) -> bool:
        """False: there is no If, and the branch that is taken has run."""
        real = self.chosen is (branch == THEN)
        wants_data = False
        self.set_state(_knowing(self.before, self.names, self.cond, branch))
        stores = BlockStores()
        try:
            self.outcomes[branch] = self._run(branch, real, stores)
        except RecursionError:
            reject_endless(self.what, self.where)
        except Exception as error:
            wants_data = not real and self.chosen is not None and _wants_data(error)
            if not wants_data:
                if not real:
                    self.set_state(self.before)
                stores.drop(restore=not real)
                if without_data() or (real and not self.ended) or not abandons():
                    raise
                if not real:  # unsupported without data: as if there were no trace
                    self.containers.restore()
                    self._run_taken()
                return False
        self.set_state(self.before)
        stores.end(real)
        if real:
            self.stored = stores
        changed = [] if loop_bodies.under_way else self.containers.changed()
        if wants_data or changed or not stores.can_be_joined():
            if not real and self.chosen is not None:
                self._check_instead(stores, changed, wants_data)
                return False
            if real:
                note_storing(self.where)
                if traces_reads() and self.branches.can_be_checked():
                    self.branches.take(lambda: checked(self.cond))
                    self.set_state(self.outcomes[branch].state)
                    stores.set_again()
                    return False
        if not stores.can_be_joined():
            if not real:
                _reject_store(stores, self.what, self.where)
            serves_once(f"stores {stores.first()} in a branch of the {self.what} at {self.where}")
            stores.found.clear()
        if loop_bodies.under_way and (grows := self.containers.growing()):
            raise grows  # in a loop: it can make a list of the graph of it
        self.containers.check(f"a branch of the {self.what}")
        return True

    def _check_instead(
        self, stores: BlockStores, changed: list[Snapshot], wants_data: bool
    ) -> None:
        """The branch that is not taken can't be staged: the graph checks the condition."""
        forgive_rejection()
        self.branches.discard()
        if not wants_data:
            note_storing(self.where)
            if not changed and not may_check():
                _reject_store(stores, self.what, self.where)
        _restore(changed, self.what)
        checked(self.cond)
        self._run_taken()

    def _run(self, branch: int, real: bool, stores: BlockStores) -> Outcome:
        outcome = Outcome(stores)

        def run() -> list[torch.Tensor]:
            self.began |= real
            self.bodies[branch]()
            self.ended = real
            outcome.state = self.get_state()
            outcome.parts = [*map(take_apart, outcome.state), *stores.take()]
            return [tensor for parts in outcome.parts for tensor in parts.tensors()]

        try:
            first = self.branches.run(branch, run)
        except (Error, Grows, RecursionError):
            raise
        except Exception as error:
            if real:
                reject_if_caught(error, f"a branch at {line()}")
                raise
            if _wants_data(error):
                raise
            check_runs_without_data(error)
            check_not_caught(error, f"a branch at {line()}")
            outcome.error = error
            self.branches.raise_(branch, *described(error))
            return outcome
        number(outcome.parts, first)
        return outcome

    def _join(self) -> None:
        then, other = self.outcomes[THEN], self.outcomes[ELSE]
        if then.error is not None and other.error is not None:
            raise then.error
        actual = other if self.chosen is False or then.error is not None else then
        count = len(self.names)
        stored = extend(self.branches, count, self.outcomes)
        names = self.names + tuple(store.path for store in stored)
        try:
            joined = Join(self.branches, names, self.where, self.what).states(then, other, actual)
        except Exception:
            if without_data() or not abandons():
                raise
            joined = actual.state  # unsupported: as if there were no trace
        self.set_state(joined[:count])
        for store, value in zip(stored, joined[count:]):
            store.set(ld(value))


def _restore(changed: list[Snapshot], what: str) -> None:
    """What the branch that is not taken has changed, where the condition can be checked."""
    can = traces_reads() and may_check()
    for snapshot in changed:
        if not can or not snapshot.can_be_restored():
            reject_change(snapshot, f"a branch of the {what}")
    for snapshot in changed:
        snapshot.restore()


def checked(cond: torch.Tensor) -> int:
    """The branch that is taken; the graph checks that it is."""
    if abandoned():
        return THEN if cond else ELSE
    return THEN if bool(as_number(cond.reshape(()))) else ELSE


def _reject_store(stores: BlockStores, what: str, where: str) -> NoReturn:
    reject(
        f"a branch of the {what} at {where} stores {stores.first()}, in code that it calls, and a graph does not "
        "know whether that branch is taken. Return the value and store it behind the block, or choose by a Python "
        "value."
    )


def reject_endless(what: str, where: str) -> NoReturn:
    reject(
        f"the function calls itself without end in the {what} at {where}: its condition is a tensor, so both "
        "branches are in the graph. Write the recursion as a loop, or recur on a Python value."
    )


def check_condition(cond: torch.Tensor, what: str, where: str) -> None:
    if math.prod(sizes_now(cond)) != 1:
        reject(
            f"the condition of the {what} at {where} is {kind(cond)}: it must be one value. Write "
            ".any() or .all(), or torch.where for a choice by element."
        )


def _knowing(state: State, names: tuple[str, ...], cond: torch.Tensor, branch: int) -> State:
    """In a branch of `if flag` or `if not flag`, the generated flag is known."""
    negated = cond.__dict__.get("_tracehost_not")
    flag, then = (cond, True) if negated is None else (negated, False)
    value = then if branch == THEN else not then
    return tuple(value if is_own(n) and v is flag else v for n, v in zip(names, state))


def _wants_data(error: Exception) -> bool:
    """Whether a branch failed as it has no data, in a trace that may check the condition instead."""
    if abandoned() or not traces_reads():
        return False
    return type(error) is ValueReadError or depends_on_values(error) or has_read_a_value()


def has_read_a_value() -> bool:
    """Whether the body needed a value that is not there: torch's argument parser replaces that error."""
    try:
        repeat_rejection()
    except ValueReadError:
        return True
    except Error:
        pass
    return False


def depends_on_values(error: Exception) -> bool:
    """Whether what is run without data fails as a shape depends on values."""
    return needs_data(error) is not None or _may_be_of_its_sizes(error)


def _may_be_of_its_sizes(error: Exception) -> bool:
    """Whether C code has raised it, and may have done so for a size that a later call has otherwise."""
    return has_unknown_sizes() and not raised_by_statement(error)


def check_runs_without_data(error: Exception) -> None:
    """What an op says that needs values is no exception of the user's program."""
    what = needs_data(error)
    if what is not None:
        reject(
            f"{what} at {line()} gives results whose shape depends on values, in a branch or loop that is "
            "staged without running it. Use torch.where or masks that keep the shape, or move it out of the "
            "block."
        )
    if _may_be_of_its_sizes(error):
        reject(
            f"{type(error).__name__} ({error}) at {line()} may be raised for a size that depends on values, in a "
            "branch or loop that is staged without running it. Use torch.where or masks that keep the shape, or "
            "move it out of the block."
        )
