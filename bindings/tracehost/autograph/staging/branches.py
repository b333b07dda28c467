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
from ..._traced.stand_ins import needs_data
from ..._tracehost import (
    Branches,
    abandoned,
    can_be_checked,
    forgive_rejection,
    has_unknown_sizes,
    is_storing,
    may_check,
    note_storing,
    serves_once,
    sizes_now,
    traces_reads,
    without_data,
)
from ..conversion.undefined import ld
from .containers import Containers, Grows, reject_change
from .containers import bodies as loop_bodies
from .join import ELSE, THEN, Join, Outcome, State, Thunk, extend
from .snapshots import Snapshot
from .state import as_number, as_tensor, is_own, is_tensor, kind, take_apart
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
    branches = Branches(cond)
    before = get_state()
    containers = Containers(*(sources or bodies))
    chosen = branches.condition
    outcomes: dict[int, Outcome] = {}
    ended = False

    def real_body() -> None:
        nonlocal ended
        bodies[THEN if chosen else ELSE]()
        ended = True

    # The one that is not taken comes first: if it can't be staged, nothing has run for real.
    for branch in (ELSE, THEN) if chosen else (THEN, ELSE):
        set_state(_knowing(before, names, cond, branch))
        real = chosen is (branch == THEN)
        wants_data = False
        stores = BlockStores()
        try:
            body = real_body if real else bodies[branch]
            outcomes[branch] = _run(branches, branch, body, get_state, real, stores)
        except RecursionError:
            reject_endless(what, where)
        except Exception as error:
            wants_data = not real and chosen is not None and _wants_data(error)
            if not wants_data:
                if not real:
                    set_state(before)
                stores.drop(put_back=not real)
                if not abandoned() or without_data():
                    raise
                if not real:  # unsupported without data: as if there were no trace
                    bodies[THEN if chosen else ELSE]()
                elif not ended:
                    raise
                return
        set_state(before)
        stores.end(real)
        changed = [] if loop_bodies.under_way else containers.changed()
        joins = stores.can_be_joined() and not changed
        if not real and chosen is not None and (wants_data or not joins):
            forgive_rejection()
            branches.discard()
            if not wants_data:
                note_storing(where)
                if not changed and not may_check():
                    _reject_store(stores, what, where)
            _put_back(changed, what)
            bodies[checked(cond)]()
            return
        if real and not joins:
            note_storing(where)
            if traces_reads() and branches.can_be_checked():
                branches.take(lambda: checked(cond))
                set_state(outcomes[branch].state)
                stores.set_again()
                return
        if not stores.can_be_joined():
            if not real:
                _reject_store(stores, what, where)
            serves_once(f"stores {stores.first()} in a branch of the {what} at {where}")
            stores.found.clear()
        if loop_bodies.under_way and (grows := containers.growing()):
            raise grows  # in a loop: it can make a list of the graph of it
        containers.check(f"a branch of the {what}")
    then, other = outcomes[THEN], outcomes[ELSE]
    if then.error is not None and other.error is not None:
        raise then.error
    actual = other if chosen is False or then.error is not None else then
    stored = extend(branches, len(names), outcomes)
    paths = tuple(store.path for store in stored)
    try:
        joined = Join(branches, names + paths, where, what).states(then, other, actual)
    except Exception:
        if not abandoned() or without_data():
            raise
        joined = actual.state  # unsupported: as if there were no trace
    set_state(joined[: len(names)])
    for store, value in zip(stored, joined[len(names) :]):
        store.set(ld(value))


def _put_back(changed: list[Snapshot], what: str) -> None:
    """What the branch that is not taken has changed, where the condition can be checked."""
    can = traces_reads() and may_check()
    for snapshot in changed:
        if not can or not snapshot.can_be_put_back():
            reject_change(snapshot, f"a branch of the {what}")
    for snapshot in changed:
        snapshot.put_back()


def checked(cond: torch.Tensor) -> int:
    """The branch that is taken; the graph checks that it is."""
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


def _run(
    branches: Branches,
    branch: int,
    thunk: Thunk,
    get_state: Callable[[], State],
    real: bool,
    stores: BlockStores,
) -> Outcome:
    outcome = Outcome(stores)

    def run() -> list[torch.Tensor]:
        thunk()
        outcome.state = get_state()
        outcome.parts = [*map(take_apart, outcome.state), *stores.take()]
        return [leaf for parts in outcome.parts for leaf in parts.leaves if is_tensor(leaf)]

    try:
        first = branches.run(branch, run)
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
        branches.raise_(branch, *described(error))
        return outcome
    outcome.number(range(len(outcome.parts)), first)
    return outcome


def _wants_data(error: Exception) -> bool:
    """Whether a branch failed as it has no data, in a trace that may check the condition instead."""
    if abandoned() or not traces_reads():
        return False
    return type(error) is ValueReadError or depends_on_values(error)


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
