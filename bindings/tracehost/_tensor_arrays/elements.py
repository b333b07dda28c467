"""What an element of a TensorArray may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._arguments.dtypes import name_of
from .._arguments.tensor_spec import fits
from .._arguments.values import last_kind
from .._traced.traced_number import TracedNumber
from .._tracehost import _number_is_size, recording, row_count, sizes_now
from ..autograph.staging.conditions import raise_if
from ..autograph.staging.containers import bodies
from ..autograph.staging.state import as_number, as_tensor, is_number, is_read, is_tensor
from ..autograph.staging.where import line, reject

_KINDS = (bool, int, float)
ROW = -1


class Elements:
    """One dtype; a shape as far as it is declared; one shape for all, unless they may differ."""

    def __init__(self, dtype: torch.dtype, shape: Any, may_differ: bool) -> None:
        self.dtype, self.may_differ = dtype, may_differ
        self.shape = None if shape is None else _checked_shape(shape)
        self.device: torch.device | None = None  # where there are zeros before any is written

    @property
    def full_shape(self) -> tuple[int, ...] | None:
        """The declared one, where no size of it is open."""
        return None if self.shape is None or None in self.shape else self.shape

    def tensor(self, value: Any) -> torch.Tensor:
        """An element of a value that is written."""
        if is_tensor(value):
            return value
        if not (is_number(value) or type(value) is TracedNumber):
            raise TypeError(
                f"a TensorArray takes tensors and numbers, not a {type(value).__name__}"
            )
        kind = value.__class__
        if _KINDS.index(kind) > last_kind(self.dtype):
            raise TypeError(
                f"a{'n' if kind is int else ''} {kind.__name__} is written to a TensorArray of "
                f"{name_of(self.dtype)}. Convert it, or give the array its dtype."
            )
        if is_read(value):
            return as_tensor(value).to(self.dtype)
        return torch.full((), value, dtype=self.dtype)

    def check(self, of: torch.Tensor, part: Any, known: Any, staged: bool) -> None:
        """`of` itself, or ROW of it, or a piece of so many rows.

        `known`: the shape of the elements before, or None, and whether it may be another one.
        """
        dtype = of.dtype
        if dtype != self.dtype:
            raise ValueError(
                f"a {name_of(dtype)} tensor is written to a TensorArray of {name_of(self.dtype)}. "
                "Convert it, or give the array its dtype."
            )
        if self.device not in (None, of.device):
            raise ValueError(
                f"an element on {of.device} is written to a TensorArray whose zeros are on {self.device}. Give "
                f"the array device={str(of.device)!r}."
            )
        shape = _of_part(sizes_now(of), part)
        if self.shape is not None:
            what = f"is written to a TensorArray whose element_shape is {list(self.shape)}"
            if not fits(shape, self.shape):
                raise ValueError(f"an element of shape {list(shape)} {what}")
            another = ValueError(f"an element of another shape {what}")
            check_at_each_call(of, self.shape[1:] if _is_piece(part) else self.shape, another)
        before, inexact = known
        if before is None or before == shape or (inexact and len(before) == len(shape)):
            return
        if not self.may_differ:
            raise ValueError(
                f"an element of shape {list(shape)} is written to a TensorArray, or to a list that a loop fills, whose elements have shape "
                f"{list(before)}. Write elements of one shape: only a list that a loop over Python numbers fills may hold several"
            )
        if staged:
            reject(
                f"an element of shape {list(shape)} is written at {line()} to a TensorArray whose elements have "
                f"shape {list(before)}: in a graph they have one shape, also with infer_shape=False. Pad them to "
                "one shape."
            )


def check_integer(number: torch.Tensor, what: str) -> None:
    """Raises TypeError for a tensor that can't be an index or a size."""
    integer = (number.dim() == 0 or number.numel() == 1) and not number.dtype.is_floating_point
    if not integer or number.dtype.is_complex or number.dtype == torch.bool:
        raise TypeError(
            f"a TensorArray's {what} is an integer or an integer tensor of one element, not a "
            f"{name_of(number.dtype)} tensor of shape {list(number.shape)}"
        )


def _checked_shape(shape: Any) -> tuple[int | None, ...]:
    is_shape = isinstance(shape, (list, tuple)) and all(
        n is None or (isinstance(n, int) and not isinstance(n, bool) and n >= 0) for n in shape
    )
    if not is_shape:
        raise TypeError(
            "a TensorArray's element_shape is a list of sizes (None: dynamic) or None (any shape), got "
            f"{shape!r}"
        )
    return tuple(None if n is None else int(n) for n in shape)


def check_at_each_call(
    of: torch.Tensor, declared: Sequence[int | None] | None, error: Exception
) -> None:
    """Of last sizes that fit now, and may differ at another call: the graph raises `error` where they do not."""
    declared = declared or ()
    for d, wanted in enumerate(declared, of.dim() - len(declared)):
        if wanted is not None and recording() and (size := _open_size(of, d)) is not None:
            raise_if(size != wanted, error)


def _open_size(of: torch.Tensor, d: int) -> Any:
    """A size as a number of the graph; None: it is always the same."""
    if bodies.under_way:  # of what a loop's body makes, row_count alone keeps nothing alive
        count = row_count(of.movedim(d, 0) if d else of)
        return None if count is None else as_number(count)
    size = of.shape[d]
    return size if type(size) is TracedNumber else None


def traced(number: Any) -> Any:
    """A 0-dim tensor for a number of the graph, and for a size."""
    number = as_tensor(number)
    if type(number) is TracedNumber and recording() and _number_is_size(number):
        return torch.add(number, torch.zeros((), dtype=torch.int64))
    return number


def _is_piece(part: int | None) -> bool:
    return part not in (None, ROW)


def _of_part(sizes: Sequence[int], part: int | None) -> tuple[int, ...]:
    if _is_piece(part):
        return (part, *sizes[1:])  # type: ignore[arg-type]
    return tuple(sizes)[1:] if part == ROW else tuple(sizes)
