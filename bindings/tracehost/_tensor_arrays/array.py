"""What a TensorArray, and a list that a staged loop appends to, have in common: elements by number."""

from __future__ import annotations

import operator
from typing import Any, Self

import torch

from .. import _tracehost
from .._traced.traced_number import compute
from ..autograph.staging.state import as_number, is_read, is_tensor
from ..autograph.staging.where import line, reject
from .elements import Elements, check_integer, traced


class Array:
    """Tensors by number, which are read and written one by one."""

    def __init__(self, elements: Elements, staged: Any = None) -> None:
        """`staged`: the list of the graph; None: a Python list holds the elements."""
        self._elements, self._staged = elements, staged
        self._fixed = False
        self._least: Any = 0  # of one that grows: how many elements there are at least
        self._list: list[torch.Tensor | None] = []  # outside of traces

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

    def write(self, index: Any, value: Any) -> Self:
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

    def append(self, value: Any) -> Self:
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
        reject(
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
            reject(
                f"a TensorArray that was made outside of the traced function is used at {line()}. Make it in the "
                "function, of a tensor that is passed: TensorArray(dtype).unstack(tensor)."
            )
        return self._list


def number_of(size: Any) -> Any:
    return as_number(size) if is_tensor(size) else size
