"""`x[i]` of a traced tensor with a traced integer `i`: a view, as in eager code.

While it traces, torch's own indexing would ask for the integer's value. The other parts of a key are torch's.
"""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import Any

import torch

from ..._traced.fake_tensors import needs_data
from ..._tracehost import select
from ..staging.state import as_tensor, is_tensor
from .numbers import has_numbers, tensor_of_numbers


def _is_index(part: Any) -> bool:
    return (
        is_tensor(part)
        and part.dim() == 0
        and not part.dtype.is_floating_point
        and not part.dtype.is_complex
        and part.dtype not in (torch.bool, torch.uint8)
    )


def _is_mask(key: Any) -> bool:
    return is_tensor(key) and key.dtype == torch.bool and key.dim() > 0


def _is_put(tensor: Any, key: Any, value: Any) -> bool:
    """Whether index_put_ stores what torch's own way would, which leaves out first sizes of 1: a later call may have
    more rows."""
    if not (is_tensor(value) and value.dtype == tensor.dtype and value.dim()):
        return False
    if _is_mask(key):
        return True
    rows = is_tensor(key) and key.dtype == torch.int64 and key.dim() > 0
    return rows and value.dim() <= tensor.dim() - 1 + key.dim()


def _without_lists(part: Any) -> Any:
    """torch takes a list with a number of the graph for a tuple."""
    return tensor_of_numbers(part) if type(part) in (list, tuple) and has_numbers(part) else part


_MOST_PARTS = 32  # from there on a list is one index to torch


def _parts(key: Any) -> tuple[Any, ...]:
    """What torch takes for the parts of the key: it takes a list of lists for a tuple of them."""
    if isinstance(key, tuple):
        return key
    if type(key) is list and len(key) < _MOST_PARTS and any(map(_is_part, key)):
        return tuple(key)
    return (key,)


def _is_part(item: Any) -> bool:
    return is_tensor(item) or item is None or isinstance(item, (list, tuple, slice, EllipsisType))


def _taken(part: Any) -> int:
    """How many dimensions a part of a key stands for."""
    if part is None or isinstance(part, bool):
        return 0
    if is_tensor(part) and part.dtype in (torch.bool, torch.uint8):
        return part.dim()
    return 1


def _is_empty(key: Any) -> bool:
    """Not by ==, which is an array for numpy's keys."""
    return isinstance(key, tuple) and len(key) == 0


def _store(tensor: Any, key: Any, value: Any) -> None:
    try:
        tensor[key] = value
    except RuntimeError as error:
        if needs_data(error) is None or not is_tensor(value) or value.dim():
            raise
        if not all(p is None or p is Ellipsis or type(p) in (int, slice) for p in key):
            raise
        tensor[key] = value.reshape(1)  # a value without dimensions is read by torch


class Subscripted:
    """Stands in place of `x` in `x[key]`."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __getitem__(self, key: Any) -> Any:
        tensor, rest = self._selected(key)
        return tensor if tensor is not self._tensor and _is_empty(rest) else tensor[rest]

    def __setitem__(self, key: Any, value: Any) -> None:
        tensor, rest = self._selected(key)
        if _is_put(tensor, rest, value):
            tensor.index_put_((rest,), value)
        else:
            _store(tensor, ... if _is_empty(rest) else rest, value)

    def __delitem__(self, key: Any) -> None:
        del self._tensor[key]

    def _selected(self, key: Any) -> tuple[Any, Any]:
        """The tensor with its traced integers selected, and the rest of the key."""
        given = _parts(key)
        parts = tuple(_without_lists(as_tensor(p)) for p in given)
        if not any(_is_index(p) for p in parts):
            return self._tensor, key if all(map(operator.is_, parts, given)) else parts
        tensor = self._tensor
        dims, known = [], sum(_taken(p) for p in parts if p is not Ellipsis)
        at = 0
        for part in parts:
            dims.append(at)
            at += tensor.dim() - known if part is Ellipsis else _taken(part)
        for part, dim in reversed(list(zip(parts, dims))):
            if _is_index(part):
                tensor = select(tensor, dim, part)
        return tensor, tuple(p for p in parts if not _is_index(p))
