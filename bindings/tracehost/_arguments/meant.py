"""The TensorSpec that a shape, a dtype or a tensor was most likely written for."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .._tracehost import TensorSpec


def spec_meant(*values: Any) -> str:
    """`tracehost.TensorSpec([None, 3], torch.float32)` for `[None, 3]`, `torch.float32`; empty: nothing is known.

    Args:
        values: arguments, or a signature. One with a TensorSpec knows how it is written.
    """
    leaves = tree_leaves(values, is_leaf=lambda one: one is None)
    if any(isinstance(leaf, TensorSpec) for leaf in leaves):
        return ""
    tensor = next((leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), None)
    if tensor is not None:
        return _text(list(tensor.shape), tensor.dtype)
    dtype = next((leaf for leaf in leaves if isinstance(leaf, torch.dtype)), None)
    shape = _shape(values)
    if shape is None and dtype is None:
        return ""
    return _text([None] if shape is None else shape, dtype or torch.float32)


def written(value: Any) -> str:
    """A repr with `tracehost.TensorSpec`, as a file that imports tracehost has it."""
    return re.sub(r"(?<![\w.])TensorSpec\(", "tracehost.TensorSpec(", repr(value))


def _text(shape: list[int | None], dtype: torch.dtype) -> str:
    return f"tracehost.TensorSpec({shape}, {dtype})"


def _shape(value: Any) -> list[int | None] | None:
    """The first list or tuple of sizes. A list of ints may be a value, so one size at least is None."""
    if not isinstance(value, (list, tuple)):
        return None
    if value and all(one is None or type(one) is int for one in value):
        is_shape = None in value or isinstance(value, torch.Size)
        return list(value) if is_shape and any(type(one) is int for one in value) else None
    return next((found for found in map(_shape, value) if found is not None), None)
