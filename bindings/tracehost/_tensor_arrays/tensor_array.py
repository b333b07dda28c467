"""TensorArray: a list of tensors that loops of the graph write to."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Self

import torch

from .. import _tracehost
from .._arguments.dtypes import dtype_of
from ..autograph.run.explicit import looped
from ..autograph.staging.conditions import raise_if
from ..autograph.staging.state import as_tensor, is_read, is_tensor
from .array import number_of
from .array_rows import AllAtOnce, check_rows
from .elements import Elements, check_integer, traced


class TensorArray(AllAtOnce):
    """Tensors of one dtype and shape by number, written and read in loops, stacked afterwards.

    While a function is traced it is a list of the graph, which changes in place: a loop or branch of the
    graph may write to an array that was made outside of it. Outside of a trace it is a Python list of
    tensors. Gradients flow through it.

        out = tracehost.TensorArray()
        for x in xs:
            out.append(x * x)
        return out.stack()

    Args:
        dtype: of each element, as TensorSpec takes it. Python numbers are converted to it, tensors must have
            it.
        size: how many elements at first: an int, a size of a tensor, or an integer tensor of one element,
            which may be another one at each call of a graph. An int that stays is the first size of `stack()`
            that a trace knows.
        dynamic_size: True: it grows, by `append` or by `write` beyond its end. False: it keeps its size, and
            `append` is an error. None: it grows if `size` is 0 or left out.
        clear_after_read: taken as tf does; elements may be read any number of times.
        infer_shape: False: outside of a trace elements may have different shapes; `concat` joins them.
        element_shape: a list of sizes, None for any, that each element must have. Where no size is None, the
            elements of a given size are zeros until they are written, and `stack()` of no elements has a shape.
        device: of those zeros, and with them of all elements. None: the default one.
        name: taken as tf does.

    Where a graph decides how many elements an array has, `size()` is a traced int, and so is the first
    size of `stack()`.

    All elements have the shape of the first one; a value of another shape or dtype is a ValueError that
    names both. Where a loop or branch of the graph reads, an element must have been written before it, or
    `element_shape` be given in full, so that its shape is known: else it is a StagingError.

    Raises:
        TypeError: `dtype` is none; `size` is no integer; `element_shape` is no list of sizes.
        ValueError: `size` is negative.
    """

    def __init__(
        self,
        dtype: Any = torch.float32,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        *,
        infer_shape: bool = True,
        element_shape: Sequence[int | None] | None = None,
        device: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            Elements(dtype_of(dtype, "TensorArray's dtype"), element_shape, not infer_shape)
        )
        recording = _tracehost.recording()
        size = _size(size, recording)
        by_value = is_tensor(size)
        self._fixed = (by_value or size > 0) if dynamic_size is None else not dynamic_size
        self._least = 0 if self._fixed else number_of(size)
        if not recording:
            self._list = [None] * size
        elif not self._fixed:
            self._staged = _tracehost.TensorArray(0)
            if by_value:
                raise_if(self._least < 0, ValueError("TensorArray's size must be at least 0"))
        else:
            keeps = by_value or size > 0  # an int of 0 would let it grow
            self._staged = _tracehost.TensorArray(
                size if keeps else torch.zeros((), dtype=torch.int64)
            )
        if self._elements.full_shape is not None:
            zero = torch.zeros(self._elements.full_shape, dtype=self.dtype, device=device)
            self._elements.device = zero.device
            self._fill(number_of(size), zero)

    def _fill(self, count: Any, zero: torch.Tensor) -> None:
        """As tf has it; a graph learns what an element is from none of them, too."""
        self._least = 0
        if is_read(count):

            def put(i: Any) -> Any:
                self.put(i, torch.zeros_like(zero))
                return i + 1

            looped("TensorArray", lambda i: i < count, put, (0,))
        elif self._staged is not None:
            self._staged.unstack(zero.new_zeros((count, *zero.shape)))
        else:
            self._list[:] = zero.new_zeros((count, *zero.shape)).unbind(0)

    def scatter(self, indices: Any, value: torch.Tensor) -> Self:
        """Write row i of `value` as element `indices[i]`; returns the array. Of equal numbers the last wins.

        Args:
            indices: a list of ints, or a 1-dim integer tensor, as many as there are rows.

        Raises:
            TypeError: `value` is no tensor, or has no dimension; `indices` are no integers.
            ValueError: there are more or fewer indices than rows.
        """
        check_rows("scatter", value)
        if is_tensor(indices) and indices.dim() != 1:
            raise TypeError(
                f"scatter takes a list of ints or a 1-dim integer tensor, got one of {indices.dim()} dimensions"
            )
        count = indices.shape[0] if is_tensor(indices) else len(indices)
        if count != value.shape[0]:
            raise ValueError(f"scatter of {value.shape[0]} rows to {count} indices")
        if not (is_tensor(indices) and _tracehost.recording()):
            for index, row in zip(indices, value.unbind(0)):
                self.write(index, row)
            return self

        def write(i: Any) -> Any:
            at = as_tensor(i)
            self.write(_tracehost.select(indices, 0, at), _tracehost.select(value, 0, at))
            return i + 1

        looped("scatter", lambda i: i < count, write, (0,))
        return self


def _size(size: Any, recording: bool) -> Any:
    """What the user gives as an int, or a 0-dim tensor that the graph has."""
    size = traced(0 if size is None else size)
    if is_tensor(size):
        check_integer(size, "size")
        if recording:
            return size.reshape(())
    size = operator.index(size)
    if size < 0:
        raise ValueError(f"TensorArray's size must be at least 0, not {size}")
    return size
