"""The rows of nested tensors, one after the other: what map_fn and scan go over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._arguments.arrays import tensor_of
from .._arguments.trees import flatten
from .._tracehost import recording
from ..autograph.run.explicit import looped
from ..autograph.staging.state import is_tensor, kind
from .tensor_array import TensorArray


class Rows:
    """Tensors, numpy arrays, and containers of them, all of one first size."""

    def __init__(self, what: str, elems: Any) -> None:
        leaves, self.spec = flatten(elems)
        self.tensors = [_tensor(what, leaf) for leaf in leaves]
        if not self.tensors:
            raise ValueError(f"{what} takes at least one tensor as elems, got {elems!r}")
        self.count = self.tensors[0].shape[0]
        for tensor in self.tensors[1:]:
            if tensor.shape[0] != self.count:
                raise ValueError(
                    f"{what} takes tensors of one first size, got {self.count} and {tensor.shape[0]}"
                )
        self._arrays = [TensorArray(t.dtype).unstack(t) for t in self.tensors]

    def row(self, i: Any) -> Any:
        return self.spec.unflatten([array.read(i) for array in self._arrays])

    def results(self, dtype: torch.dtype, shape: Any, device: torch.device) -> TensorArray:
        """For a tensor of each row. `shape`: of one, None where it is not known."""
        if type(self.count) is int and self.count > 0:
            return TensorArray(dtype, self.count)  # each element is written
        return TensorArray(dtype, element_shape=shape, device=device)


def each_row(what: str, count: Any, step: Callable[..., Any], state: tuple[Any, ...] = ()) -> Any:
    """`state = step(i, *state)` for each number of a row; in a trace one loop of the graph.

    `what`: the function that the user has called, for messages.
    """
    if recording():

        def body(i: Any, *state: Any) -> Any:
            return (i + 1, *step(i, *state))

        return looped(what, lambda i, *_: i < count, body, (0, *state))[1:]
    for i in range(count):
        state = step(i, *state)
    return state


def _tensor(what: str, leaf: Any) -> torch.Tensor:
    if type(leaf).__module__ == "numpy" and hasattr(leaf, "dtype"):
        leaf = tensor_of(leaf)
    if not is_tensor(leaf):
        raise TypeError(f"{what} takes tensors as elems, in containers or alone, got {kind(leaf)}")
    if leaf.dim() == 0:
        raise ValueError(
            f"{what} takes tensors of at least one dimension as elems, got {kind(leaf)}"
        )
    return leaf


def dtypes_in(value: Any) -> Any:
    """For messages: containers as they are, dtypes in place of tensors and numbers."""
    leaves, spec = flatten(value)
    return spec.unflatten(
        x.dtype if is_tensor(x) else dtype_of_number(x) or x.__class__ for x in leaves
    )


def dtype_of_number(value: Any) -> torch.dtype | None:
    """The one that torch.tensor gives a number, a traced one too; None: it is none."""
    kinds = {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}
    return kinds.get(value.__class__)
