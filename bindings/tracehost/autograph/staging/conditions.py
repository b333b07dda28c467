"""Conditional expressions, and, or, not, assert. On traced tensors they are staged ifs whose result is a value."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from ..._traced.traced_number import compute
from ..._tracehost import _can_be_read, can_be_checked
from ..conversion.undefined import ld
from .branches import check_condition, stage
from .iterables import is_staged, truth_of
from .join import State, Thunk
from .state import as_tensor, is_read, is_tensor, is_traced, promoted
from .where import line

Variables = tuple[Callable[[], State], Callable[[State], None], tuple[str, ...]]


def choose(
    cond: torch.Tensor,
    then: Thunk,
    orelse: Thunk,
    what: str,
    sources: tuple[Thunk, ...] = (),
    variables: Variables | None = None,
) -> Any:
    """The value of the chosen one, as one value of the graph. `variables`: what := assigns in the two."""
    result: Any = None
    get_others, put_others, names = variables or (tuple, nothing, ())

    def assign(thunk: Thunk) -> Thunk:
        def run() -> None:
            nonlocal result
            result = thunk()

        return run

    def get() -> State:
        return (result, *get_others())

    def put(state: State) -> None:
        nonlocal result
        result, *others = state
        put_others(tuple(others))

    bodies = assign(then), assign(orelse)
    stage(cond, bodies, get, put, ("the result", *names), what, sources or (then, orelse))
    return ld(result)


def if_exp(cond: Any, then: Thunk, orelse: Thunk, variables: Variables | None = None) -> Any:
    cond = truth_of(cond)
    if is_staged(cond):
        return choose(cond, then, orelse, "conditional expression", (), variables)
    return then() if cond else orelse()


def and_(left: Any, right: Thunk, variables: Variables | None = None) -> Any:
    """An operand, as in Python."""
    if is_staged(left):
        return choose(left, right, lambda: left, "'and'", (), variables)
    return left and right()


def or_(left: Any, right: Thunk, variables: Variables | None = None) -> Any:
    if is_staged(left):
        return choose(left, lambda: left, right, "'or'", (), variables)
    return left or right()


def _truth(value: Any, what: str) -> torch.Tensor:
    """As a 0-dim bool tensor."""
    value = as_tensor(truth_of(value))
    if not is_tensor(value):
        return promoted(bool(value), torch.bool)
    check_condition(value, what, line())
    value = value.reshape(())
    return value if value.dtype == torch.bool else value != 0


def and_test(left: Any, right: Thunk, variables: Variables | None = None) -> Any:
    """`and` of which only the truth counts: operands may be of different kinds."""
    left = truth_of(left)
    if not is_staged(left) or can_be_checked(left):
        return left and right()
    left = as_tensor(left)
    false = torch.zeros((), dtype=torch.bool, device=left.device)
    sides = lambda: _truth(right(), "'and'"), lambda: false
    return choose(left, *sides, "'and'", (right,), variables)


def or_test(left: Any, right: Thunk, variables: Variables | None = None) -> Any:
    left = truth_of(left)
    if not is_staged(left) or can_be_checked(left):
        return left or right()
    left = as_tensor(left)
    true = torch.ones((), dtype=torch.bool, device=left.device)
    sides = lambda: true, lambda: _truth(right(), "'or'")
    return choose(left, *sides, "'or'", (right,), variables)


def truth_tensor(value: Any, what: str) -> torch.Tensor | None:
    """A condition as a tensor of one element; None: true for good."""
    value = as_tensor(truth_of(value))
    if is_tensor(value):
        check_condition(value, what, line())
        return value
    return None if value else promoted(False, torch.bool)


def not_(value: Any) -> Any:
    value = truth_of(value)
    if not is_staged(value):
        return not value
    if is_read(value):
        return compute("not", operator.not_, value)
    check_condition(value, "'not'", line())
    result = torch.logical_not(value).reshape(())
    result._tracehost_not = value  # type: ignore[attr-defined]
    return result


def not_value(value: Any) -> Any:
    """`not` whose result is a value: a bool."""
    if is_staged(value) and is_tensor(value) and _can_be_read(value):
        value = value.item()
    return not_(value)


def assert_stmt(
    cond: torch.Tensor, message: Thunk | None, message_of: Callable[[Thunk], Any]
) -> None:
    def fail() -> None:
        raise AssertionError if message is None else AssertionError(message_of(message))

    sources = () if message is None else (message,)
    stage(cond, (nothing, fail), tuple, nothing, (), "assert", sources)


def raise_if(cond: Any, error: Exception) -> None:
    """Raises for a check of tracehost. With a number of the graph, each call raises for which `cond` holds."""

    def fail() -> None:
        raise type(error)(*error.args)  # a new one: its traceback must not hold what holds it

    if not is_traced(cond):
        return fail() if cond else None
    choose(cond, fail, nothing, "check")


def nothing(*_: Any) -> None:
    """A block that is not there."""
