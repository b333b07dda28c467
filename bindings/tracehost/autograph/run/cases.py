"""case and switch_case: one of several functions, by conditions or by a number. Nested conds."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch

from ..._counterparts import check_options
from ..._traced.traced_number import TracedNumber
from ..._tracehost import recording
from ..staging.branches import check_condition
from ..staging.join import Thunk
from ..staging.state import as_tensor, is_tensor, kind
from ..staging.where import line
from .explicit import check_callable, chosen


def case(
    pred_fn_pairs: Sequence[tuple[Any, Thunk]],
    default: Thunk | None = None,
    exclusive: bool = False,
    **options: Any,
) -> Any:
    """The result of the function whose condition is the first to hold; else of `default`.

    In a traced function, with autograph or without, tensors among the conditions become ifs of the graph.
    Each function is called once while it is traced (see `cond`), and each call of the Function runs the one
    that its conditions choose. Outside of a trace it is a chain of if and elif.

    Args:
        pred_fn_pairs: a list or tuple of pairs: a bool or a tensor of one element; a function without
            parameters. What the functions return must agree, as with `cond`.
        default: a function without parameters, for where no condition holds.
        exclusive: it is an error if two conditions hold.

    Returns:
        What the chosen function does.

    Raises:
        TypeError: `pred_fn_pairs` is no list of pairs, or a function is not callable.
        ValueError: `pred_fn_pairs` is empty. At a call: no condition holds and there is no `default`; or
            two hold, where `exclusive` is set.
        StagingError: a condition has more than one element, or the results don't agree.
    """
    check_options("case", options)
    pairs = checked_pairs(pred_fn_pairs, default)
    where = line()
    if exclusive:
        _check_exclusive([pred for pred, _ in pairs], where)

    def none_holds() -> NoReturn:
        raise ValueError(
            f"none of the {len(pairs)} conditions of the case at {where} holds, and it has no default"
        )

    return _first("case", pairs, none_holds if default is None else default)


def _first(what: str, pairs: Sequence[tuple[Any, Thunk]], default: Thunk) -> Any:
    (pred, function), *rest = pairs
    return chosen(what, pred, function, (lambda: _first(what, rest, default)) if rest else default)


def switch_case(
    branch_index: Any,
    branch_fns: Mapping[int, Thunk] | Sequence[Any],
    default: Thunk | None = None,
    **options: Any,
) -> Any:
    """The result of the function that has the number `branch_index`; else of `default`.

    In a traced function, with autograph or without, a traced `branch_index` becomes ifs of the graph: see
    `case`. Else only the chosen function is called.

    Args:
        branch_index: an int, or an integer tensor of one element.
        branch_fns: functions without parameters: a list, whose places are the numbers; a dict by number, or
            a list of pairs of a number and a function. What they return must agree, as with `cond`.
        default: a function without parameters, for all other numbers; None: the one of the largest number.

    Returns:
        What the chosen function does.

    Raises:
        TypeError: `branch_index` or a number is no integer, or a function is not callable.
        ValueError: there are no functions, or two of one number.
        StagingError: the results don't agree.
    """
    check_options("switch_case", options)
    functions = numbered(branch_fns)
    if default is None:
        default = functions[max(functions)]
    check_callable("switch_case", "default", default)
    index = _checked_index(branch_index)
    if not _may_differ(index):
        return functions.get(operator.index(index), default)()
    others = {n: f for n, f in functions.items() if f is not default}
    if not others:
        return default()
    pairs = [(index == n, f) for n, f in sorted(others.items())]
    return _first("switch_case", pairs, default)


def _may_differ(value: Any) -> bool:
    """Whether a later call may have another value: a tensor, or a number of any kind, in a trace."""
    return (is_tensor(value) or type(value) is TracedNumber) and recording()


def checked_pairs(pairs: Any, default: Any) -> list[tuple[Any, Thunk]]:
    if not isinstance(pairs, (list, tuple)):
        raise TypeError(f"case takes a list of pairs (condition, function), got {kind(pairs)}")
    if not pairs:
        raise ValueError("case takes at least one pair (condition, function), got none")
    for i, pair in enumerate(pairs):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(f"case takes pairs (condition, function), pair {i} is {pair!r}")
        check_callable("case", f"function {i}", pair[1])
    if default is not None:
        check_callable("case", "default", default)
    return [tuple(pair) for pair in pairs]


def _check_exclusive(preds: list[Any], where: str) -> None:
    def fail() -> None:
        raise ValueError(
            f"two or more of the {len(preds)} conditions of the case at {where} are true, and exclusive=True allows one"
        )

    if not any(map(_may_differ, preds)):
        if sum(map(bool, preds)) > 1:
            fail()
        return
    count = sum(_one_if(as_tensor(pred), where) for pred in preds)
    chosen("case", count > 1, fail, lambda: None)


def _one_if(pred: Any, where: str) -> Any:
    if not is_tensor(pred):
        return int(bool(pred))
    check_condition(pred, "case", where)
    return (pred.reshape(()) != 0).to(torch.int64)


def numbered(branch_fns: Any) -> dict[int, Thunk]:
    if isinstance(branch_fns, Mapping):
        pairs = list(branch_fns.items())
    elif not isinstance(branch_fns, (list, tuple)):
        raise TypeError(f"switch_case takes a dict or a list of functions, got {kind(branch_fns)}")
    elif all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in branch_fns):
        pairs = list(branch_fns)
    else:
        pairs = list(enumerate(branch_fns))
    if not pairs:
        raise ValueError("switch_case takes at least one function, got none")
    functions: dict[int, Thunk] = {}
    for number, function in pairs:
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"switch_case takes ints as numbers of its functions, got {number!r}")
        if number in functions:
            raise ValueError(f"switch_case has two functions of the number {number}")
        check_callable("switch_case", f"function {number}", function)
        functions[number] = function
    return functions


def _checked_index(index: Any) -> Any:
    if is_tensor(index) and recording():
        check_condition(index, "switch_case", line())
    if is_tensor(index):
        fits = not index.dtype.is_floating_point and not index.dtype.is_complex
        fits, index = fits and index.dtype != torch.bool, index.reshape(()) if fits else index
    else:
        kind_of = index.__class__
        fits = issubclass(kind_of, int) and kind_of is not bool
    if not fits:
        raise TypeError(f"switch_case takes an integer, got {kind(index)}")
    return index
