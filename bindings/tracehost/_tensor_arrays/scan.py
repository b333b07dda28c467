"""scan: a value carried over the rows, all its states stacked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._arguments.trees import flatten
from .._counterparts import check_options
from .._tracehost import sizes_now
from ..autograph.run.explicit import check_callable
from ..autograph.staging.conditions import raise_if
from ..autograph.staging.state import is_tensor, kind
from ..autograph.staging.where import line
from .elements import Elements
from .rows import Rows, dtype_of_number, dtypes_in, each_row
from .tensor_array import TensorArray


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    *,
    reverse: bool = False,
    **options: Any,
) -> Any:
    """`a = fn(a, row)` for each row along dimension 0; all the `a` stacked along a new dimension 0.

        tracehost.scan(lambda a, x: a + x, torch.ones(4))  # 1, 2, 3, 4

    In a traced function, with autograph or without, it is one loop of the graph, however many rows there
    are: `fn` is called once while it is traced, on tensors without data. Gradients flow through it. Outside
    of a trace it is a plain loop.

    Args:
        fn: gets the value so far and a row; returns the next value, of the same containers, dtypes and shapes.
        elems: a tensor, or a container of tensors of one first size.
        initializer: the first value: a tensor or a number, or a container of them; numbers become tensors.
            None: the first row, which is the first result too.
        reverse: from the last row to the first; the result of each row stays in its place.

    Returns:
        A tensor, or a container of tensors, with as many rows as `elems`.

    Raises:
        TypeError: `fn` is not callable, `elems` has something else than tensors, or `fn` returns other
            containers or dtypes than the value before.
        ValueError: `elems` has a tensor without dimension, or first sizes differ; `fn` returns another shape;
            or there are no rows and no `initializer`.
        StagingError: as `while_loop`.
    """
    check_options("scan", options)
    check_callable("scan", "fn", fn)
    rows, where = Rows("scan", elems), line()
    skip = int(initializer is None)  # rows before the loop
    if skip:
        error = ValueError(f"scan at {where} goes over no rows, and has no initializer")
        raise_if(rows.count == 0, error)

    def place(i: Any) -> Any:
        return rows.count - 1 - i if reverse else i

    leaves, spec = flatten(rows.row(place(0)) if skip else initializer)
    state = tuple(_tensor(leaf) for leaf in leaves)
    arrays = [_array(rows, leaf) for leaf in state]
    if skip:
        for array, leaf in zip(arrays, state):
            array.put(place(0), leaf)

    def step(i: Any, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        at = place(i + skip)
        result = fn(spec.unflatten(state), rows.row(at))
        state = _checked(result, spec, state, where)
        for array, leaf in zip(arrays, state):
            array.put(at, leaf)
        return state

    each_row("scan", rows.count - skip, step, state)
    return spec.unflatten([array.stack() for array in arrays])


def _array(rows: Rows, leaf: torch.Tensor) -> TensorArray:
    exact = all(type(size) is int for size in leaf.shape)
    shape = list(leaf.shape) if exact else None  # else no rows are an error of the graph's
    return rows.results(leaf.dtype, shape, leaf.device)


def _tensor(leaf: Any) -> torch.Tensor:
    if is_tensor(leaf):
        return leaf
    dtype = dtype_of_number(leaf)
    if dtype is not None:
        return Elements(dtype, None, False).tensor(leaf)
    raise TypeError(f"scan takes tensors and numbers as its initializer, got {kind(leaf)}")


def _checked(result: Any, spec: Any, before: Any, where: str) -> tuple[torch.Tensor, ...]:
    leaves, found = flatten(result)
    if found != spec:
        raise TypeError(
            f"scan at {where}: fn returns {dtypes_in(result)!r}, the value before is "
            f"{spec.unflatten([leaf.dtype for leaf in before])!r}. Return the same containers."
        )
    after = tuple(_tensor(leaf) for leaf in leaves)
    for a, b in zip(before, after):
        changes = "dtype" if a.dtype != b.dtype else "device" if a.device != b.device else ""
        if changes:
            raise TypeError(
                f"scan at {where}: fn returns {kind(b)} on {b.device}, the value before is {kind(a)} on "
                f"{a.device}. Give the initializer the {changes} of the result."
            )
        if sizes_now(a) != sizes_now(b):
            raise ValueError(
                f"scan at {where}: fn returns {kind(b)}, the value before is {kind(a)}. All states have one shape."
            )
    return after
