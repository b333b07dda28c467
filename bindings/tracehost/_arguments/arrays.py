"""numpy's arrays as tensors. numpy is not imported: whoever has an array has imported it."""

from __future__ import annotations

from typing import Any

import torch

from .._errors import SignatureError


def tensor_of(array: Any) -> torch.Tensor:
    """`torch.as_tensor(array)`: shares its memory; a copy of what a tensor can't share."""
    dtype = array.dtype
    if array.ndim and not (
        array.flags.writeable
        and dtype.isnative
        and all(step >= 0 and step % dtype.itemsize == 0 for step in array.strides)
    ):
        array = array.astype(dtype.newbyteorder("="), order="C")
    try:
        return torch.as_tensor(array)
    except TypeError:
        what = "array" if array.ndim else "value"
        raise SignatureError(
            f"torch has no tensors of a numpy {what}'s dtype {dtype}. "
            "Convert it first, as in array.astype('float32'), or pass it as Python values."
        ) from None
