"""TensorArray: a list of tensors that loops of the graph write to."""

from __future__ import annotations

import operator
from typing import Any

import torch

from . import _tracehost
from ._dtypes import dtype_of
from ._traced_number import TracedNumber
from .autograph._state import as_number, as_tensor, dtype_name, is_number, is_read, is_tensor
from .autograph._where import line, refuse


class TensorArray:
    """Tensors of one dtype and shape by number, written and read in loops, stacked afterwards.

    While a function is traced it is a list of the graph, which changes in place: a loop or branch of the
    graph may write to an array that was made outside of it. Outside of a trace it is a Python list of
    tensors. Gradients flow through it.

        out = tracehost.TensorArray()
        for x in xs:
            out.append(x * x)
        return out.stack()

    Args:
        dtype: of each element. Python numbers are converted to it, tensors must have it.
        size: how many elements. 0: it grows, by `append` or by `write` beyond its end. Else it keeps this
            size and `append` is an error; then the first size of `stack()` is known in a trace. An integer
            tensor of one element: it keeps that size, which may be another one at each call of a graph.

    Where a graph decides how many elements an array has, `size()` is a traced int, and so is the first
    size of `stack()`.

    All elements have the shape of the first one; a value of another shape or dtype is a ValueError that
    names both. Where a loop or branch of the graph reads, an element must have been written before it,
    so that its shape is known: else it is a StagingError.
    """

    def __init__(self, dtype: Any = torch.float32, size: Any = 0) -> None:
        self.dtype = dtype_of(dtype, "TensorArray's dtype")
        self._items: list[torch.Tensor | None] = []
        self._staged: Any = None
        recording = _tracehost.recording()
        size = as_tensor(size)
        by_value = is_tensor(size)
        if by_value:
            self._check_integer(size, "size")
            size = size.reshape(()) if recording else int(size)
        else:
            size = operator.index(size)
        if not is_tensor(size) and size < 0:
            raise ValueError(f"TensorArray's size must be at least 0, not {size}")
        self._fixed = by_value or size > 0
        if recording:
            self._staged = _tracehost.TensorArray(size)
        else:
            self._items = [None] * size

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
        items = self._own()
        items += [None] * (at + 1 - size)
        items[at] = value
        return self

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
        value = self._element(value)
        if self._staged is not None:
            self._staged.append(value)
        else:
            self._own().append(value)
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

    def stack(self) -> torch.Tensor:
        """All elements along a new dimension 0.

        Raises:
            RuntimeError: there is none (as torch.stack of an empty list), or one is not written.
        """
        if self._staged is not None:
            return self._staged.stack()
        if not self._items:
            raise RuntimeError(
                "stack() of a TensorArray without elements: there is no shape to give the result. Ask size() "
                "first, or write an element before."
            )
        for i, value in enumerate(self._items):
            if value is None:
                raise RuntimeError(
                    f"stack() of a TensorArray whose element {i} of {len(self._items)} is not written"
                )
        return torch.stack(self._items)  # type: ignore[arg-type]

    def gather(self, indices: Any) -> torch.Tensor:
        """The elements of these numbers along a new dimension 0: a list of ints, or a 1-dim integer tensor.

        With a tensor all elements must be written.

        Raises:
            IndexError: there is no such element, or it is not written yet.
        """
        if is_tensor(indices):
            return torch.index_select(self.stack(), 0, indices)
        return torch.stack([self.read(i) for i in indices])

    def unstack(self, tensor: torch.Tensor) -> TensorArray:
        """Put the tensor's rows in place of all elements; returns the array.

        Raises:
            ValueError: the rows differ from the elements before in dtype or shape.
            RuntimeError: the size is given, and there are more or fewer rows.
        """
        if not is_tensor(tensor) or tensor.dim() == 0:
            raise TypeError("unstack takes a tensor of at least one dimension")
        self._check(tensor.dtype, tuple(_tracehost.sizes_now(tensor)[1:]))
        if self._staged is not None:
            self._staged.unstack(tensor)
            return self
        if self._fixed and tensor.shape[0] != len(self._items):
            raise RuntimeError(
                f"unstack() of {tensor.shape[0]} rows into a TensorArray of size {len(self._items)}"
            )
        self._own()[:] = tensor.unbind(0)
        return self

    def size(self) -> Any:
        """How many elements: an int; a traced int where a graph decides it."""
        if self._staged is None:
            return len(self._items)
        size = self._staged.size()
        return as_number(size) if is_tensor(size) else size

    def __len__(self) -> int:
        size = self.size()
        if not is_read(size):
            return int(size)
        refuse(
            f"len() of a TensorArray at {line()} needs the number of its elements, which the graph decides. Use "
            "its size(), a tensor."
        )

    def __iter__(self) -> Any:
        """The elements, where their number is known."""
        return (self.read(i) for i in range(len(self)))

    # ---- Checks

    def _element(self, value: Any) -> torch.Tensor:
        if is_read(value):
            value = as_tensor(value).to(self.dtype)
        elif is_number(value) or type(value) is TracedNumber:
            value = torch.full((), value, dtype=self.dtype)
        elif not is_tensor(value):
            raise TypeError(
                f"a TensorArray takes tensors and numbers, not a {type(value).__name__}"
            )
        self._check(value.dtype, tuple(_tracehost.sizes_now(value)))
        return value

    def _check(self, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        if dtype != self.dtype:
            raise ValueError(
                f"a {dtype_name(dtype)} tensor is written to a TensorArray of {dtype_name(self.dtype)}. "
                "Convert it, or give the array its dtype."
            )
        known, inexact = self._shape()
        if known is None or known == shape or (inexact and len(known) == len(shape)):
            return
        raise ValueError(
            f"an element of shape {list(shape)} is written to a TensorArray whose elements have shape "
            f"{list(known)}"
        )

    def _shape(self) -> tuple[tuple[int, ...] | None, bool]:
        if self._staged is not None:
            return self._staged.sizes or (None, False)
        return next((tuple(x.shape) for x in self._items if x is not None), None), False

    def _index(self, index: Any) -> Any:
        index = as_tensor(index)
        if not is_tensor(index):
            return operator.index(index)
        self._check_integer(index, "index")
        if self._staged is None:
            self._own()
            return int(index)
        return index.reshape(()) if index.dim() else index

    @staticmethod
    def _check_integer(number: torch.Tensor, what: str) -> None:
        integer = (number.dim() == 0 or number.numel() == 1) and not number.dtype.is_floating_point
        if not integer or number.dtype.is_complex or number.dtype == torch.bool:
            raise TypeError(
                f"a TensorArray's {what} is an integer or an integer tensor of one element, not a "
                f"{dtype_name(number.dtype)} tensor of shape {list(number.shape)}"
            )

    def _own(self) -> list[torch.Tensor | None]:
        """The Python list, where no graph has to do what is done to it."""
        if _tracehost.without_data():
            refuse(
                f"a TensorArray that was made outside of the traced function is used at {line()} in a branch or "
                "loop of the graph. Make it in the function."
            )
        return self._items
