"""What an element of a TensorArray may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ._traced_number import TracedNumber
from .autograph._state import as_tensor, dtype_name, is_number, is_read, is_tensor
from .autograph._where import line, refuse

_KINDS = (bool, int, float)


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
        if _KINDS.index(kind) > _most(self.dtype):
            raise TypeError(
                f"a{'n' if kind is int else ''} {kind.__name__} is written to a TensorArray of "
                f"{dtype_name(self.dtype)}. Convert it, or give the array its dtype."
            )
        if is_read(value):
            return as_tensor(value).to(self.dtype)
        return torch.full((), value, dtype=self.dtype)

    def check(self, of: torch.Tensor, shape: Sequence[int], known: Any, staged: bool) -> None:
        """An element, or a part of `of`. `known`: the shape of those before, or None, and whether it may be
        another one."""
        dtype = of.dtype
        if dtype != self.dtype:
            raise ValueError(
                f"a {dtype_name(dtype)} tensor is written to a TensorArray of {dtype_name(self.dtype)}. "
                "Convert it, or give the array its dtype."
            )
        if self.device not in (None, of.device):
            raise ValueError(
                f"an element on {of.device} is written to a TensorArray whose zeros are on {self.device}. Give "
                f"the array device={str(of.device)!r}."
            )
        shape = tuple(shape)
        if self.shape is not None and not _fits(shape, self.shape):
            raise ValueError(
                f"an element of shape {list(shape)} is written to a TensorArray whose element_shape is "
                f"{list(self.shape)}"
            )
        before, inexact = known
        if before is None or before == shape or (inexact and len(before) == len(shape)):
            return
        if not self.may_differ:
            raise ValueError(
                f"an element of shape {list(shape)} is written to a TensorArray whose elements have shape "
                f"{list(before)}"
            )
        if staged:
            refuse(
                f"an element of shape {list(shape)} is written at {line()} to a TensorArray whose elements have "
                f"shape {list(before)}: in a graph they have one shape, also with infer_shape=False. Pad them to "
                "one shape."
            )


def check_integer(number: torch.Tensor, what: str) -> None:
    """Of a tensor that is an index or a size."""
    integer = (number.dim() == 0 or number.numel() == 1) and not number.dtype.is_floating_point
    if not integer or number.dtype.is_complex or number.dtype == torch.bool:
        raise TypeError(
            f"a TensorArray's {what} is an integer or an integer tensor of one element, not a "
            f"{dtype_name(number.dtype)} tensor of shape {list(number.shape)}"
        )


def _most(dtype: torch.dtype) -> int:
    """The last of _KINDS that the dtype takes."""
    if dtype.is_floating_point or dtype.is_complex:
        return 2
    return int(dtype != torch.bool)


def _checked_shape(shape: Any) -> tuple[int | None, ...]:
    fits = isinstance(shape, (list, tuple)) and all(
        n is None or (isinstance(n, int) and not isinstance(n, bool) and n >= 0) for n in shape
    )
    if not fits:
        raise TypeError(
            "a TensorArray's element_shape is a list of sizes (None: any size) or None (any shape), got "
            f"{shape!r}"
        )
    return tuple(None if n is None else int(n) for n in shape)


def _fits(shape: tuple[int, ...], declared: tuple[int | None, ...]) -> bool:
    return len(shape) == len(declared) and all(d in (None, n) for n, d in zip(shape, declared))
