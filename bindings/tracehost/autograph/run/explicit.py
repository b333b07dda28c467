"""Control flow that the user asks for by name: range, cond, while_loop. With and without autograph."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._counterparts import check_options
from ..._traced.traced_number import TracedNumber
from ..._tracehost import recording
from ..staging.conditions import choose
from ..staging.iterables import range_
from ..staging.join import State, Thunk
from ..staging.loops import staged_while
from ..staging.options import NO_OPTIONS, LoopOptions
from ..staging.state import (
    as_number,
    as_tensor,
    dtype_of,
    is_marked,
    is_number,
    is_tensor,
    is_traced,
    promoted,
    take_apart,
)


def range(*args: Any) -> Any:
    """Like Python's range, and a loop of the graph while a function is traced.

    `for i in tracehost.range(n)` in a traced function is one loop in the graph, however large n is, for a
    Python int too. `for i in range(3)` with Python's range is unrolled: three copies of its body. The loop
    needs autograph; without autograph a range of ints is Python's, one of a tensor is an error. Outside
    of a trace it is Python's range, tensors are read.

    Args:
        *args: `stop`, or `start, stop`, or `start, stop, step`: ints, sizes of tensors, or integer tensors
            of one element. The step must not be zero.

    In a trace the items are traced ints: an index, an operand, the value of another variable.

    Raises:
        TypeError: an argument is no integer, or there are none or more than three.
        ValueError: the step is the int 0.
        StagingError: a tensor that is traced is no integer, or has more than one element.
        ValueReadError: Python iterates over the range of a traced tensor (a comprehension, list(...)).
    """
    if not 1 <= len(args) <= 3:
        raise TypeError(f"range expected 1 to 3 arguments, got {len(args)}")
    if not recording():
        return builtins.range(*(operator.index(a) for a in args))
    args = tuple(_integer(a) for a in args)
    made = range_(*args)
    dtypes = [a.dtype for a in args if is_tensor(a)]
    if dtypes:
        made.dtype = functools.reduce(torch.promote_types, dtypes)
    else:
        builtins.range(*args)  # its error for a step of zero
    return made


def _integer(value: Any) -> Any:
    """An int or a tensor."""
    value = as_tensor(value)
    if type(value) is TracedNumber:
        return torch.add(value, torch.zeros((), dtype=torch.int64))  # a tensor to the graph
    return value if is_tensor(value) else operator.index(value)


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
    **options: Any,
) -> Any:
    """`true_fn(*operands)` if `pred`, else `false_fn(*operands)`; a branch of the graph if `pred` is traced.

    In a traced function, with autograph or without, a tensor `pred` becomes an if of the graph. Both
    functions are called once while it is traced, the one that is not chosen on tensors without data. Each
    call of the Function runs the one that its `pred` chooses. Outside of a trace, or if `pred` is a
    Python value, it is a plain conditional.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn, false_fn: what they return must agree: the same containers; tensors of one dtype, device
            and number of dimensions in the same places (sizes may differ); numbers, which become traced
            numbers where they differ; all else equal.
        operands: a tuple or list; passed by place.

    Returns:
        What the chosen function does, structured as it is.

    Raises:
        TypeError: a function is not callable, or `operands` is no tuple or list.
        StagingError: `pred` has more than one element, the results don't agree, or a function changes a
            Python container in place.
    """
    check_options("cond", options)
    for name, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        check_callable("cond", name, function)
    if not isinstance(operands, (tuple, list)):
        raise TypeError(f"cond takes operands as a tuple or list, got {_kind(operands)}")
    return chosen(
        "cond", pred, lambda: true_fn(*operands), lambda: false_fn(*operands), (true_fn, false_fn)
    )


def chosen(what: str, pred: Any, then: Thunk, orelse: Thunk, sources: tuple[Any, ...] = ()) -> Any:
    """A cond under the name that the user called, `case`. `guarded`: the user's functions, if others."""
    if not (is_traced(pred) and recording()):
        return then() if pred else orelse()
    return choose(pred, then, orelse, what, sources)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: Sequence[Any] | None = None,
    maximum_iterations: Any = None,
    **others: Any,
) -> Any:
    """`while cond(*loop_vars): loop_vars = body(*loop_vars)`; a loop of the graph in a traced function.

    In a traced function, with autograph or without, numbers among the loop variables become traced
    numbers, and if `cond` gives a tensor, the loop becomes one of the graph: `body` is called once while it is
    traced (up to three times where a number's type must be found), on tensors without data. Where
    `cond` gives a Python value, Python runs the loop: its iterations are unrolled. Outside of a trace
    it is a plain loop.

    Args:
        cond: called with the loop variables, gives a bool or a tensor of one element.
        body: called with the loop variables, returns as many, as a tuple or list; alone, a single one may
            be returned as it is.
        loop_vars: a tuple or list (or named tuple) of tensors, numbers, and containers of them. Each
            tensor keeps its dtype, device and shape from one iteration to the next.
        shape_invariants: for each loop variable None (it keeps its shape), or a TensorSpec or a list of
            sizes, with None where the size changes.
        maximum_iterations: an int, or an integer tensor of one element: the loop ends after so many.

    Returns:
        The loop variables after the last iteration, in a container like `loop_vars`.

    Raises:
        TypeError: a function is not callable, `loop_vars` is no tuple or list.
        ValueError: `body` returns another number of variables, or `shape_invariants` has another length;
            `maximum_iterations` is negative.
        StagingError: a variable changes its kind, dtype, device or shape (`loop_vars[1]` is the second
            one), the condition has more than one element, or a function changes a Python container in
            place.
    """
    check_options("while_loop", others)
    check_callable("while_loop", "cond", cond)
    check_callable("while_loop", "body", body)
    if not isinstance(loop_vars, (tuple, list)):
        raise TypeError(f"while_loop takes loop_vars as a tuple or list, got {_kind(loop_vars)}")
    options = _options(loop_vars, shape_invariants, maximum_iterations)
    return _like(loop_vars)(looped("while_loop", cond, body, loop_vars, options))


def looped(
    what: str,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    options: LoopOptions = NO_OPTIONS,
) -> State:
    """`while_loop` without its checks. `what`: the function that the user has called, for messages."""
    state: State = tuple(loop_vars)
    if recording():
        state = tuple(_with_tensors(v) for v in state)

    def get() -> State:
        return state

    def put(new: State) -> None:
        nonlocal state
        state = tuple(new)

    def test() -> Any:
        return cond(*state)

    def step() -> None:
        put(_results(body(*state), len(loop_vars)))

    limit = options.maximum_iterations
    if not recording():
        rest = None if limit is None else operator.index(limit)
        while (rest is None or rest > 0) and test():
            step()
            rest = None if rest is None else rest - 1
        return state
    names = tuple(f"loop_vars[{i}]" for i, _ in enumerate(loop_vars))
    while is_tensor(limit) or limit is None or limit > 0:
        first = test()
        if not is_traced(first):
            if not first:
                break
            if not is_tensor(limit):
                step()
                limit = None if limit is None else limit - 1
                continue
            first = promoted(True, torch.bool)  # asked in each of a traced number of iterations
        options = LoopOptions(options.shape_invariants, limit)
        staged_while(first, test, step, get, put, names, options, what, sources=(cond, body))
        break
    return state


def _results(values: Any, count: int) -> State:
    if not isinstance(values, (tuple, list)):
        values = (values,)
    if len(values) != count:
        raise ValueError(
            f"while_loop's body returned {len(values)} values for {count} loop variables; it must "
            "return all of them, in their order"
        )
    return tuple(values)


def _with_tensors(value: Any) -> Any:
    """The graph carries numbers as 0-dim tensors."""
    parts = take_apart(value)
    if not any(is_number(leaf) for leaf in parts.leaves):
        return value
    leaves = [promoted(x, dtype_of(x)) if is_number(x) else x for x in parts.leaves]
    return parts.put([as_number(x) if is_marked(x) else x for x in leaves])


def _like(container: Any) -> Callable[[State], Any]:
    if isinstance(container, tuple) and hasattr(container, "_make"):
        return type(container)._make  # type: ignore[attr-defined]
    return tuple if isinstance(container, tuple) else list


def _options(loop_vars: Any, invariants: Any, maximum: Any) -> LoopOptions:
    maximum = as_tensor(maximum)
    if not is_tensor(maximum) and maximum is not None:
        maximum = operator.index(maximum)
        if maximum < 0:
            raise ValueError(f"while_loop's maximum_iterations must be at least 0, not {maximum}")
    if invariants is None:
        return LoopOptions(None, maximum)
    if not isinstance(invariants, (tuple, list)) or len(invariants) != len(loop_vars):
        raise ValueError(
            f"while_loop takes one shape invariant for each of the {len(loop_vars)} loop variables (None: "
            f"its shape does not change), got {invariants!r}"
        )
    named = {f"loop_vars[{i}]": s for i, s in enumerate(invariants) if s is not None}
    return LoopOptions(named, maximum)


def check_callable(what: str, name: str, function: Any) -> None:
    if not callable(function):
        raise TypeError(f"{what} takes a callable as {name}, got {_kind(function)}")


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
