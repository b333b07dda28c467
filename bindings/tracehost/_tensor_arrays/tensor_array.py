"""TensorArray: a list of tensors that loops of the graph write to."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from .. import _tracehost
from .._arguments.dtypes import dtype_of
from .._traced.traced_number import compute
from ..autograph.staging.conditions import raise_if
from ..autograph.staging.state import as_number, is_read, is_tensor
from ..autograph.staging.where import line, refuse
from .array_rows import AllAtOnce, number_of, put_each
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
        self._elements = Elements(
            dtype_of(dtype, "TensorArray's dtype"), element_shape, not infer_shape
        )
        recording = _tracehost.recording()
        size = _size(size, recording)
        by_value = is_tensor(size)
        self._fixed = (by_value or size > 0) if dynamic_size is None else not dynamic_size
        # Of one that grows: how many elements there are at least.
        self._least = 0 if self._fixed else as_number(size) if by_value else size
        self._list: list[torch.Tensor | None] = []  # outside of traces
        self._staged: Any = None
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
            self._fill(as_number(size) if by_value else size, zero)

    def _fill(self, count: Any, zero: torch.Tensor) -> None:
        """As tf has it; a graph learns what an element is from none of them, too."""
        self._least = 0
        if is_read(count):
            put_each(self.put, count, lambda i: (i, torch.zeros_like(zero)))
        elif self._staged is not None:
            self._staged.unstack(zero.new_zeros((count, *zero.shape)))
        else:
            self._list[:] = zero.new_zeros((count, *zero.shape)).unbind(0)

    @property
    def dtype(self) -> torch.dtype:
        """Of each element."""
        return self._elements.dtype

    @property
    def element_shape(self) -> tuple[int | None, ...] | None:
        """As declared, else that of the elements that are written; None: not known."""
        declared = self._elements.shape
        return self._shape()[0] if declared is None else declared

    @property
    def dynamic_size(self) -> bool:
        """Whether it grows."""
        return not self._fixed

    def __repr__(self) -> str:
        return f"TensorArray(dtype={self.dtype})"

    def write(self, index: Any, value: Any) -> TensorArray:
        """Write element `index`, an int or an integer tensor of one element; returns the array, as tf does.

        Raises:
            IndexError: the size is given, and there is no such element.
            ValueError: `value` differs from the other elements in dtype or shape.
        """
        value = self._element(value)
        index = self._index(index)
        if self._staged is not None:
            self._staged.write(index, value)
            return self
        size = len(self._items)
        at = index + size if index < 0 else index
        if at < 0 or (self._fixed and at >= size):
            raise IndexError(
                f"element {index} is written to a TensorArray of size {size}. Give it a larger size, or none "
                "(TensorArray(dtype)): then it grows."
            )
        items = self._items
        items += [None] * (at + 1 - size)
        items[at] = value
        return self

    def put(self, index: Any, value: torch.Tensor) -> None:
        """`write` of what is known to fit."""
        if self._staged is None:
            self.write(index, value)
        else:
            self._staged.write(self._index(index), value)

    def append(self, value: Any) -> TensorArray:
        """Write one element more; returns the array.

        Raises:
            ValueError: the size is given, or `value` differs from the other elements in dtype or shape.
        """
        if self._fixed:
            raise ValueError(
                "append to a TensorArray whose size is given. Use write(index, value), or give it no size "
                "(TensorArray(dtype)): then it grows."
            )
        if type(self._least) is not int or self._least:
            return self.write(self.size(), value)
        value = self._element(value)
        if self._staged is not None:
            self._staged.append(value)
        else:
            self._items.append(value)
        return self

    def read(self, index: Any) -> torch.Tensor:
        """Element `index`, an int (from the end if negative) or an integer tensor of one element.

        Raises:
            IndexError: there is no such element, or it is not written yet.
        """
        index = self._index(index)
        if self._staged is not None:
            return self._staged.read(index)
        size = len(self._items)
        if not -size <= index < size:
            raise IndexError(f"element {index} is read of a TensorArray that has {size}")
        value = self._items[index]
        if value is None:
            raise IndexError(f"element {index} of a TensorArray is read before it is written")
        return value

    def size(self) -> Any:
        """How many elements: an int; a traced int where a graph decides it."""
        if self._staged is None:
            return len(self._items)
        size, least = number_of(self._staged.size()), self._least
        if type(least) is int and (least == 0 or type(size) is int):
            return max(size, least) if least else size
        return compute("max", max, size, least)

    def __len__(self) -> int:
        size = self.size()
        if not is_read(size):
            return int(size)
        refuse(
            f"len() of a TensorArray at {line()} needs the number of its elements, which the graph decides. Use "
            "its size(), a traced number."
        )

    def __iter__(self) -> Any:
        """The elements, where their number is known."""
        return (self.read(i) for i in range(len(self)))

    # ---- Checks

    def as_element(self, value: Any) -> torch.Tensor:
        """A number as a tensor of the array's dtype; a tensor as it is."""
        return self._elements.tensor(value)

    def _element(self, value: Any) -> torch.Tensor:
        value = self.as_element(value)
        self._check(value)
        return value

    def _check(self, of: torch.Tensor, part: int | None = None) -> None:
        self._elements.check(of, part, self._shape(), self._staged is not None)

    def _shape(self) -> tuple[tuple[int, ...] | None, bool]:
        if self._staged is not None:
            return self._staged.sizes or (None, False)
        return next((tuple(x.shape) for x in self._items if x is not None), None), False

    def _index(self, index: Any) -> Any:
        index = traced(index)
        if not is_tensor(index):
            return operator.index(index)
        check_integer(index, "index")
        if self._staged is None:
            return int(index)
        return index.reshape(()) if index.dim() else index

    @property
    def _items(self) -> list[torch.Tensor | None]:
        """The Python list, where there is no graph, which would keep what it holds at the trace."""
        if _tracehost.recording():
            refuse(
                f"a TensorArray that was made outside of the traced function is used at {line()}. Make it in the "
                "function, of a tensor that is passed: TensorArray(dtype).unstack(tensor)."
            )
        return self._list


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
