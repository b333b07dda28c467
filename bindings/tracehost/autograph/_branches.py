"""if, conditional expressions, and, or, not, assert on traced tensors: a `prim::If` with both branches.

The branch that is taken runs for real, the other one on stand-ins without data. A variable
that both leave as it was needs nothing; two tensors become one result of the If; numbers that differ become
0-dim tensors. What can't be joined is an error only where it is used.

An exception that the branch not taken raises becomes part of the graph: raised when that branch is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from .._errors import Error
from .._tracehost import Branches, abandoned, sizes_now, without_data
from ._containers import Containers, Grows
from ._containers import bodies as loop_bodies
from ._state import (
    Parts,
    common_dtype,
    is_marked,
    is_number,
    is_own,
    is_tensor,
    kind,
    mark_number,
    poison,
    promoted,
    same,
    take_apart,
)
from ._undefined import RETURN_VALUE, is_undefined
from ._where import check_not_caught, described, line, refuse

Thunk = Callable[[], Any]
State = tuple[Any, ...]
THEN, ELSE = 0, 1


class Outcome:
    """What one branch leaves."""

    # No dataclass: the code that it generates would count as the user's in a trace.
    def __init__(self) -> None:
        self.state: State = ()
        self.parts: list[Parts] = []
        self.first = 0  # of its tensors, as Branches.run calls them
        self.error: Exception | None = None
        self.handles: dict[tuple[int, int], int] = {}  # (variable, leaf) -> tensor


def if_stmt(
    cond: torch.Tensor,
    body: Thunk,
    orelse: Thunk,
    get_state: Callable[[], State],
    set_state: Callable[[State], None],
    names: tuple[str, ...],
) -> None:
    """What the generated code calls for an if whose condition is a traced tensor."""
    stage(cond, (body, orelse), get_state, set_state, names, "if")


def stage(
    cond: torch.Tensor,
    bodies: tuple[Thunk, Thunk],
    get_state: Callable[[], State],
    set_state: Callable[[State], None],
    names: tuple[str, ...],
    what: str,
    watched: tuple[Thunk, ...] = (),
) -> None:
    """`watched`: the user's code, where `bodies` only call it."""
    where = line()
    check_condition(cond, what, where)
    branches = Branches(cond)
    before = get_state()
    containers = Containers(*(watched or bodies))
    chosen = branches.condition
    outcomes: dict[int, Outcome] = {}
    ended = False

    def real_body() -> None:
        nonlocal ended
        bodies[THEN if chosen else ELSE]()
        ended = True

    for branch in (THEN, ELSE):
        set_state(_knowing(before, names, cond, branch))
        real = chosen is (branch == THEN)
        try:
            body = real_body if real else bodies[branch]
            outcomes[branch] = _run(branches, branch, body, get_state, real)
        except RecursionError:
            refuse_endless(what, where)
        except Exception:
            if not abandoned() or without_data():
                raise
            if not real:  # refused without data: as if there were no trace
                set_state(before)
                bodies[THEN if chosen else ELSE]()
            elif not ended:
                raise
            return
        set_state(before)
        if loop_bodies.under_way and (grows := containers.growing()):
            raise grows  # in a loop: it can make a list of the graph of it
        containers.check(f"a branch of the {what}")
    then, other = outcomes[THEN], outcomes[ELSE]
    if then.error is not None and other.error is not None:
        raise then.error
    actual = other if chosen is False or then.error is not None else then
    set_state(_Join(branches, names, where, what).states(then, other, actual))


def refuse_endless(what: str, where: str) -> NoReturn:
    refuse(
        f"the function calls itself without end in the {what} at {where}: its condition is a tensor, so both "
        "branches are in the graph. Write the recursion as a loop, or recur on a Python value."
    )


def check_condition(cond: torch.Tensor, what: str, where: str) -> None:
    if math.prod(sizes_now(cond)) != 1:
        refuse(
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
    branches: Branches, branch: int, thunk: Thunk, get_state: Callable[[], State], real: bool
) -> Outcome:
    outcome = Outcome()

    def run() -> list[torch.Tensor]:
        thunk()
        outcome.state = get_state()
        outcome.parts = [take_apart(value) for value in outcome.state]
        return [leaf for parts in outcome.parts for leaf in parts.leaves if is_tensor(leaf)]

    try:
        outcome.first = branches.run(branch, run)
    except (Error, Grows, RecursionError):
        raise
    except Exception as error:
        if real:
            raise
        check_runs_without_data(error)
        check_not_caught(error, f"a branch at {line()}")
        outcome.error = error
        branches.raise_(branch, *described(error))
        return outcome
    number = outcome.first
    for v, parts in enumerate(outcome.parts):
        for i, leaf in enumerate(parts.leaves):
            if is_tensor(leaf):
                outcome.handles[v, i] = number
                number += 1
    return outcome


def check_runs_without_data(error: Exception) -> None:
    """What an op says that needs values is no exception of the user's program."""
    from torch._subclasses import fake_tensor

    without_data = (
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.DataDependentOutputException,
        fake_tensor.UnsupportedOperatorException,
        fake_tensor.UnsupportedFakeTensorException,
    )
    if isinstance(error, without_data):
        what = getattr(error, "func", None) or getattr(error, "reason", None) or error
        refuse(
            f"{what} at {line()} gives results whose shape depends on values, in a branch or loop that is "
            "staged without running it. Use torch.where or masks that keep the shape, or move it out of the "
            "block."
        )


class _Join:
    """Makes one state of two."""

    def __init__(self, branches: Branches, names: tuple[str, ...], where: str, what: str) -> None:
        self._branches, self._names, self._where, self._what = branches, names, where, what

    def states(self, then: Outcome, other: Outcome, actual: Outcome) -> State:
        if then.error is not None or other.error is not None:
            return self._one_sided(actual, THEN if actual is then else ELSE)
        plans = [self._plan(v, then, other) for v in range(len(self._names))]
        self._promote(THEN, then, plans)
        self._promote(ELSE, other, plans)
        return tuple(self._joined(v, plan, then, other, actual) for v, plan in enumerate(plans))

    def _one_sided(self, left: Outcome, branch: int) -> State:
        """The other branch raises: what comes after has this one's values."""
        state = []
        for v, parts in enumerate(left.parts):
            leaves = list(parts.leaves)
            for i, leaf in enumerate(leaves):
                if is_tensor(leaf):
                    handle = left.handles[v, i]
                    handles = (handle, None) if branch == THEN else (None, handle)
                    leaves[i] = self._keep(leaf, self._branches.join(*handles, leaf))
            state.append(parts.put(leaves))
        return tuple(state)

    @staticmethod
    def _keep(leaf: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        return mark_number(result) if is_marked(leaf) else result

    def _plan(self, v: int, then: Outcome, other: Outcome) -> Any:
        """An object: the variable's value after the If. A list: dtype of each leaf to join, or None."""
        name, a, b = self._names[v], then.state[v], other.state[v]
        if same(a, b):
            return _Value(a)
        if is_undefined(a) and is_undefined(b):
            return _Value(a if isinstance(a, type(b)) else b)
        if is_undefined(a) or is_undefined(b):
            if name == RETURN_VALUE:
                return self._placeholder(v, then, other)
            return _Value(
                poison(
                    name,
                    f"'{name}' is assigned in only one branch of the {self._what} at {self._where}, whose "
                    "condition is a tensor; give it a value in both, or before it.",
                )
            )
        parts, others = then.parts[v], other.parts[v]
        if parts.spec != others.spec:
            return self._differs(name, f"it is {kind(a)} in one and {kind(b)} in the other")
        dtypes = []
        for x, y in zip(parts.leaves, others.leaves):
            dtype = self._leaf(x, y)
            if isinstance(dtype, str):
                return self._differs(name, dtype)
            dtypes.append(dtype)
        return dtypes

    def _differs(self, name: str, why: str) -> Any:
        shown = "the value returned" if name == RETURN_VALUE else f"'{name}'"
        message = (
            f"{shown} differs between the branches of the {self._what} at {self._where}, whose condition is a "
            f"tensor: {why}. Give it one kind, dtype and number of dimensions in both."
        )
        return _Value(poison(name, message))

    @staticmethod
    def _leaf(x: Any, y: Any) -> Any:
        """The dtype of the joined tensor; None: nothing to join; a text: why not."""
        if same(x, y):
            return None
        if not (is_tensor(x) or is_number(x)) or not (is_tensor(y) or is_number(y)):
            return f"it is {kind(x)} in one and {kind(y)} in the other"
        dtype = common_dtype(x, y)
        if dtype is None:
            return f"it is {kind(x)} in one and {kind(y)} in the other (dtypes differ)"
        if is_tensor(x) and is_tensor(y):
            if x.dim() != y.dim():
                return f"it is {kind(x)} in one and {kind(y)} in the other (numbers of dimensions differ)"
            if x.device != y.device:
                return f"it is on {x.device} in one and on {y.device} in the other"
        elif is_tensor(x if is_tensor(x) else y) and (x if is_tensor(x) else y).dim() != 0:
            return (
                f"it is {kind(x)} in one and {kind(y)} in the other (numbers of dimensions differ)"
            )
        return dtype

    def _placeholder(self, v: int, then: Outcome, other: Outcome) -> Any:
        """A result that one path has not yet: zeros, which only paths without a return would show."""
        given, missing, branch = (
            (other, then, THEN) if is_undefined(then.state[v]) else (then, other, ELSE)
        )
        parts = given.parts[v]
        made: list[torch.Tensor] = []

        def zeros() -> list[torch.Tensor]:
            for leaf in parts.leaves:
                if is_tensor(leaf):
                    made.append(torch.zeros(sizes_now(leaf), dtype=leaf.dtype, device=leaf.device))
            return made

        number = self._branches.run(branch, zeros)
        supply = iter(made)
        leaves = [next(supply) if is_tensor(leaf) else leaf for leaf in parts.leaves]
        missing.parts[v] = Parts(leaves, parts.spec)
        for i, leaf in enumerate(leaves):
            if is_tensor(leaf):
                missing.handles[v, i] = number
                number += 1
        return [leaf.dtype if is_tensor(leaf) else None for leaf in parts.leaves]

    def _promote(self, branch: int, outcome: Outcome, plans: list[Any]) -> None:
        """Puts tensors in place of the numbers that are to be joined."""
        wanted = [
            (v, i, dtype)
            for v, plan in enumerate(plans)
            if isinstance(plan, list)
            for i, dtype in enumerate(plan)
            if dtype is not None and _needs(outcome.parts[v].leaves[i], dtype)
        ]
        if not wanted:
            return
        made: list[torch.Tensor] = []

        def make() -> list[torch.Tensor]:
            for v, i, dtype in wanted:
                leaf = outcome.parts[v].leaves[i]
                made.append(
                    mark_number(leaf.to(dtype)) if is_tensor(leaf) else promoted(leaf, dtype)
                )
            return made

        first = self._branches.run(branch, make)
        for n, (v, i, _) in enumerate(wanted):
            outcome.parts[v].leaves[i] = made[n]
            outcome.handles[v, i] = first + n

    def _joined(self, v: int, plan: Any, then: Outcome, other: Outcome, actual: Outcome) -> Any:
        if isinstance(plan, _Value):
            return plan.value
        leaves = list(actual.parts[v].leaves)
        for i, dtype in enumerate(plan):
            if dtype is None:
                continue
            x, y = then.parts[v].leaves[i], other.parts[v].leaves[i]
            result = self._branches.join(then.handles[v, i], other.handles[v, i], leaves[i])
            leaves[i] = mark_number(result) if is_marked(x) and is_marked(y) else result
        return actual.parts[v].put(leaves)


class _Value:
    def __init__(self, value: Any) -> None:
        self.value = value


def _needs(leaf: Any, dtype: torch.dtype) -> bool:
    return not is_tensor(leaf) or leaf.dtype != dtype


# ---- Expressions


def choose(
    cond: torch.Tensor, then: Thunk, orelse: Thunk, what: str, watched: tuple[Thunk, ...] = ()
) -> Any:
    """The value of the chosen one, as one value of the graph."""
    result: Any = None

    def assign(thunk: Thunk) -> Thunk:
        def run() -> None:
            nonlocal result
            result = thunk()

        return run

    def get() -> State:
        return (result,)

    def put(state: State) -> None:
        nonlocal result
        (result,) = state

    bodies = assign(then), assign(orelse)
    stage(cond, bodies, get, put, ("the result",), what, watched or (then, orelse))
    if is_undefined(result):
        result.read()
    return result


def if_exp(cond: torch.Tensor, then: Thunk, orelse: Thunk) -> Any:
    return choose(cond, then, orelse, "conditional expression")


def and_(left: torch.Tensor, right: Thunk) -> Any:
    """An operand, as in Python."""
    return choose(left, right, lambda: left, "'and'")


def or_(left: torch.Tensor, right: Thunk) -> Any:
    return choose(left, lambda: left, right, "'or'")


def _truth(value: Any, what: str) -> torch.Tensor:
    """As a 0-dim bool tensor."""
    if not is_tensor(value):
        return promoted(bool(value), torch.bool)
    check_condition(value, what, line())
    value = value.reshape(())
    return value if value.dtype == torch.bool else value != 0


def and_test(left: torch.Tensor, right: Thunk) -> Any:
    false = torch.zeros((), dtype=torch.bool, device=left.device)
    watched = (right,)
    return choose(left, lambda: _truth(right(), "'and'"), lambda: false, "'and'", watched)


def or_test(left: torch.Tensor, right: Thunk) -> Any:
    true = torch.ones((), dtype=torch.bool, device=left.device)
    return choose(left, lambda: true, lambda: _truth(right(), "'or'"), "'or'", (right,))


def truth_tensor(value: Any, what: str) -> torch.Tensor | None:
    """A condition as a tensor of one element; None: true for good."""
    if is_tensor(value):
        check_condition(value, what, line())
        return value
    return None if value else promoted(False, torch.bool)


def not_(value: torch.Tensor) -> torch.Tensor:
    check_condition(value, "'not'", line())
    result = torch.logical_not(value).reshape(())
    result._tracehost_not = value  # type: ignore[attr-defined]
    return result


def assert_stmt(cond: torch.Tensor, message: Thunk | None) -> None:
    def fail() -> None:
        raise AssertionError if message is None else AssertionError(message())

    watched = () if message is None else (message,)
    stage(cond, (_nothing, fail), tuple, _nothing, (), "assert", watched)


def _nothing(*_: Any) -> None:
    pass
