"""A Python list of tensors that a staged loop appends to: a list of the graph from then on."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from ..._tensor_arrays.array_rows import AllAtOnce
from ..._tensor_arrays.elements import Elements
from ..._tracehost import TensorArray
from .containers import Grows
from .iterables import Staged
from .state import as_tensor
from .where import line, reject


class StagedList(Staged):
    """What the function's variable holds in place of its list: append, read, len, for, stack and cat."""

    def __init__(self, grows: Grows) -> None:
        self.array = AllAtOnce(Elements(grows.dtype, None, False), TensorArray(0))
        for item in grows.items:
            self.array.append(item)

    def __repr__(self) -> str:
        return "a list that a loop over a tensor appends to"

    def append(self, value: Any) -> None:
        self.array.append(value)

    def count(self) -> Any:
        return as_tensor(self.array.size())

    def item(self, index: torch.Tensor) -> Any:
        return self.array.read(index)

    def plain(self) -> Any:
        return iter(self.array)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            self._reject("a slice of it")
        return self.array.read(index)

    def __getattr__(self, name: str) -> NoReturn:
        self._reject(f"its '{name}'")

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array.write(index, value)

    def _reject(self, what: str) -> NoReturn:
        reject(
            f"{self!r} is one of the graph, and {what} at {line()} is not: append to it, read its elements, "
            "iterate over it in a for, give it to torch.stack or torch.cat. A tracehost.TensorArray does more."
        )


def stack(tensors: Any, dim: int = 0, **options: Any) -> Any:
    """torch.stack."""
    if not isinstance(tensors, StagedList):
        return torch.stack(tensors, dim, **options)
    return tensors.array.stack().movedim(0, dim)


def cat(tensors: Any, dim: int = 0, **options: Any) -> Any:
    """torch.cat."""
    if not isinstance(tensors, StagedList):
        return torch.cat(tensors, dim, **options)
    stacked = tensors.array.stack()
    dim %= stacked.dim() - 1
    return stacked.movedim(0, dim).flatten(dim, dim + 1)
