"""A Python list of tensors that a staged loop appends to: a list of the graph from then on."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from ..._tensor_arrays.array_rows import AllAtOnce
from ..._tensor_arrays.elements import Elements
from ..._tracehost import TensorArray, may_check, traces_reads
from .containers import Grows
from .iterables import Staged
from .state import as_tensor
from .where import line, reject


class StagedList(Staged):
    """What the function's variable holds in place of its list: append, read, len, for, stack and cat.

    Anything else needs a list of Python's: the graph then checks how many elements there are.
    """

    def __init__(self, grows: Grows) -> None:
        self.array = AllAtOnce(Elements(grows.dtype, None, False), TensorArray(0))
        self.items: list[Any] | None = None  # Python's list, from then on
        for item in grows.items:
            self.array.append(item)

    def __repr__(self) -> str:
        return "a list that a loop over a tensor appends to"

    def append(self, value: Any) -> None:
        (self.array if self.items is None else self.items).append(value)

    def count(self) -> Any:
        return as_tensor(self.array.size()) if self.items is None else len(self.items)

    def item(self, index: torch.Tensor) -> Any:
        return self.array.read(index) if self.items is None else self.items[int(index)]

    def plain(self) -> Any:
        return iter(self.listed("each element"))

    def stack(self) -> torch.Tensor:
        return self.array.stack() if self.items is None else torch.stack(self.items)

    def listed(self, what: str) -> list[Any]:
        """The list. `what` needs it, for a message."""
        if self.items is None:
            size = self.array.size()
            if type(size) is not int and not (may_check() and traces_reads()):
                self._reject(what)
            self.items = [self.array.read(i) for i in range(int(size))]
        return self.items

    def __len__(self) -> int:
        return len(self.listed("len()"))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.listed("a slice of it")[index]
        return self.array.read(index) if self.items is None else self.items[index]

    def __getattr__(self, name: str) -> Any:
        if not hasattr(list, name):
            raise AttributeError(f"'list' object has no attribute {name!r}")
        return getattr(self.listed(f"its '{name}'"), name)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.items is None and not isinstance(index, slice):
            self.array.write(index, value)
        else:
            self.listed("a slice of it")[index] = value

    def __delitem__(self, index: Any) -> None:
        del self.listed("del")[index]

    def __contains__(self, value: Any) -> bool:
        return value in self.listed("'in'")

    def __add__(self, other: Any) -> Any:
        return self.listed("+") + (other.listed("+") if isinstance(other, StagedList) else other)

    def __radd__(self, other: Any) -> Any:
        return other + self.listed("+")

    def _reject(self, what: str) -> NoReturn:
        reject(
            f"{self!r} is one of the graph, and {what} at {line()} is not: append to it, read its elements, "
            "iterate over it in a for, give it to torch.stack or torch.cat. A tracehost.TensorArray does more."
        )


def result_of(value: Any) -> Any:
    """A function's result, with Python's lists and ranges in place of those of the graph."""
    return _plain(value, set())


def _plain(value: Any, met: set[int]) -> Any:
    kind = type(value)
    if isinstance(value, Staged):
        return value.listed("the result") if kind is StagedList else value.plain()
    if kind not in (list, tuple, dict) or id(value) in met:
        return value
    met.add(id(value))
    if kind is tuple:
        parts = [_plain(x, met) for x in value]
        return tuple(parts) if any(a is not b for a, b in zip(parts, value)) else value
    for key, old in list(value.items() if kind is dict else enumerate(value)):
        new = _plain(old, met)
        if new is not old:
            value[key] = new
    return value


def stack(tensors: Any, dim: int = 0, **options: Any) -> Any:
    """torch.stack."""
    if not isinstance(tensors, StagedList):
        return torch.stack(tensors, dim, **options)
    return tensors.stack().movedim(0, dim)


def cat(tensors: Any, dim: int = 0, **options: Any) -> Any:
    """torch.cat."""
    if not isinstance(tensors, StagedList):
        return torch.cat(tensors, dim, **options)
    if tensors.items is not None:
        return torch.cat(tensors.items, dim, **options)
    stacked = tensors.array.stack()
    dim %= stacked.dim() - 1
    return stacked.movedim(0, dim).flatten(dim, dim + 1)
