"""A TensorArray's elements as one tensor, and the rows and pieces of a tensor as its elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Self

import torch

from .. import _tracehost
from ..autograph.staging.conditions import choose, raise_if
from ..autograph.staging.state import is_tensor
from ..autograph.staging.where import line
from .array import Array, number_of
from .elements import ROW, Elements


class AllAtOnce(Array):
    """What is done with all elements, or several."""

    def stack(self) -> torch.Tensor:
        """All elements along a new dimension 0.

        Raises:
            RuntimeError: there is none and `element_shape` leaves a size open, or one is not written.
        """
        shape = self._elements.full_shape
        if self._staged is None:
            return self._stack_items(shape)
        self._check_least()
        if shape is None:
            return self._staged.stack()
        size = self.size()
        if type(size) is int:
            return self._staged.stack() if size else self._none(shape)
        stack = self._staged.stack
        return choose(size > 0, stack, lambda: self._none(shape), "stack()", ())

    def _none(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.zeros((0, *shape), dtype=self.dtype, device=self._elements.device)

    def _stack_items(self, shape: tuple[int, ...] | None) -> torch.Tensor:
        if not self._items and shape is not None:
            return self._none(shape)
        if not self._items:
            raise RuntimeError(
                "stack() of a TensorArray without elements: there is no shape to give the result. Ask size() "
                "first, or write an element before."
            )
        return torch.stack(self._written())

    def _written(self) -> list[torch.Tensor]:
        """All elements, outside of a trace."""
        for i, value in enumerate(self._items):
            if value is None:
                raise RuntimeError(
                    f"stack() of a TensorArray whose element {i} of {len(self._items)} is not written"
                )
        return self._items  # type: ignore[return-value]

    def _check_least(self) -> None:
        """One that grows is shorter in the graph than it is said to be, until so many are written."""
        least = self._least
        if type(least) is int and least == 0:
            return
        raise_if(
            number_of(self._staged.size()) < least,
            RuntimeError(
                "stack() of a TensorArray of which not all elements of its first size are written"
            ),
        )

    def concat(self) -> torch.Tensor:
        """All elements along their dimension 0, one after the other.

        Raises:
            ValueError: the elements have no dimension.
            RuntimeError: as for `stack`.
        """
        shape = self.element_shape
        if shape is not None and len(shape) == 0:
            raise ValueError("concat() of a TensorArray of numbers: its elements have no dimension")
        if self._staged is None and self._elements.may_differ and self._items:
            return torch.cat(self._written())
        return self.stack().flatten(0, 1)

    def gather(self, indices: Any) -> torch.Tensor:
        """The elements of these numbers along a new dimension 0: a list of ints, or a 1-dim integer tensor.

        With a tensor all elements must be written.

        Raises:
            IndexError: there is no such element, or it is not written yet.
        """
        if is_tensor(indices):
            return torch.index_select(self.stack(), 0, indices)
        return torch.stack([self.read(i) for i in indices])

    def unstack(self, tensor: torch.Tensor) -> Self:
        """Put the tensor's rows in place of all elements; returns the array.

        Raises:
            TypeError: it is no tensor, or has no dimension.
            ValueError: the rows differ from the elements before in dtype or shape.
            RuntimeError: the size is given, and there are more or fewer rows.
        """
        check_rows("unstack", tensor)
        self._check(tensor, ROW)
        self._least = 0
        if self._staged is not None:
            self._staged.unstack(tensor)
            return self
        if self._fixed and tensor.shape[0] != len(self._items):
            raise RuntimeError(
                f"unstack() of {tensor.shape[0]} rows into a TensorArray of size {len(self._items)}"
            )
        self._items[:] = tensor.unbind(0)
        return self

    def split(self, value: torch.Tensor, lengths: Sequence[int]) -> Self:
        """Put pieces of `value`, cut along its dimension 0, in place of all elements; returns the array.

        Args:
            lengths: of the pieces, ints. In a trace they are equal: elements have one shape there.

        Raises:
            TypeError: `value` is no tensor, or has no dimension; `lengths` are a tensor that is traced.
            ValueError: the lengths do not add up to the rows, or differ where infer_shape is True.
            RuntimeError: the size is given, and there are more or fewer pieces.
        """
        pieces = _pieces(value, lengths, self._elements, self._staged is not None)
        if self._staged is not None:
            return self.unstack(pieces)
        if self._fixed and len(pieces) != len(self._items):
            raise RuntimeError(
                f"split() into {len(pieces)} pieces of a TensorArray of size {len(self._items)}"
            )
        for piece in pieces[:1]:
            self._check(piece)
        self._items[:] = pieces
        return self


def _pieces(value: torch.Tensor, lengths: Any, elements: Elements, staged: bool) -> Any:
    """A list of the pieces; in a graph, where they have one length, a tensor whose rows they are."""
    check_rows("split", value)
    if is_tensor(lengths) and staged:
        raise TypeError(
            f"split at {line()} takes lengths as a list of ints: a graph has a fixed number of pieces, known at "
            "the trace"
        )
    sizes = [operator.index(n) for n in lengths]
    if min(sizes, default=0) < 0 or sum(sizes) != value.shape[0]:
        raise ValueError(f"split of {value.shape[0]} rows into pieces of {sizes}")
    for size in sizes:
        first = (sizes[0], *_tracehost.sizes_now(value)[1:])
        elements.check(value, size, (first, False), staged)
    if staged:
        return value.unflatten(0, (len(sizes), sizes[0] if sizes else 1))
    return list(torch.split(value, sizes))


def check_rows(what: str, value: Any) -> None:
    if not is_tensor(value) or value.dim() == 0:
        raise TypeError(f"{what} takes a tensor of at least one dimension")
