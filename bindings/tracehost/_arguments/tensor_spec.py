"""TensorSpec with a dtype given by name, or as numpy's. The rest is in C++ (`_tracehost.TensorSpec`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._tracehost import TensorSpec
from .dtypes import dtype_of

_make = TensorSpec.__init__


def __init__(
    self: TensorSpec,
    shape: Any,
    dtype: Any = torch.float32,
    device: Any = None,
    name: str | None = None,
) -> None:
    _make(self, shape, dtype_of(dtype, "TensorSpec: dtype"), device, name)


def fits(shape: Sequence[int], declared: Sequence[int | None] | None) -> bool:
    """Whether a shape, as it is now, is as declared."""
    return declared is None or (
        len(shape) == len(declared) and all(d in (None, n) for n, d in zip(shape, declared))
    )


TensorSpec.__init__ = __init__  # type: ignore[method-assign]
TensorSpec.__doc__ = (TensorSpec.__doc__ or "").replace(
    "dtype: a torch.dtype.", "dtype: a torch.dtype, its name ('float32'), or numpy's."
)
