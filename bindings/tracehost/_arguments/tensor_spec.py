"""TensorSpec with a dtype given by name, or as numpy's. The rest is in C++ (`_tracehost.TensorSpec`)."""

from __future__ import annotations

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


TensorSpec.__init__ = __init__  # type: ignore[method-assign]
TensorSpec.__doc__ = (TensorSpec.__doc__ or "").replace(
    "dtype: a torch.dtype.", "dtype: a torch.dtype, its name ('float32'), or numpy's."
)
