"""Tensors made of numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..._traced.traced_number import TracedNumber
from ..._tracehost import _number_tensor
from ..staging.state import is_number


def has_numbers(data: Any) -> bool:
    """Whether it is a number of the graph or a traced size, or a list of numbers, at any depth, of which one is."""
    leaves = tree_leaves(data, is_leaf=lambda part: type(part) not in (list, tuple))
    traced = [type(x) is TracedNumber for x in leaves]
    return any(traced) and all(t or is_number(x) for t, x in zip(traced, leaves))


def tensor_of_numbers(data: Any) -> torch.Tensor:
    """A new tensor: of bools, of int64, or of float64 if one is a float."""
    if type(data) is TracedNumber:
        return _number_tensor(data).clone()
    if type(data) not in (list, tuple):
        return torch.tensor(data, dtype=torch.float64 if type(data) is float else None)
    parts = [tensor_of_numbers(x) for x in data]
    dtypes = {part.dtype for part in parts}
    for dtype in (torch.float64, torch.int64):
        if dtype in dtypes:
            return torch.stack([part.to(dtype) for part in parts])
    return torch.stack(parts)
