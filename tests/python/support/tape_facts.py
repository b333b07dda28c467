"""All that a caller sees of a result: tests of tapes compare it with eager's."""

from typing import Any

import torch


def facts(value: Any) -> Any:
    """Values, dtype, layout, memory, version, and what autograd knows; a list for a tuple or a list."""
    if isinstance(value, (tuple, list)):
        return [facts(one) for one in value]
    if not isinstance(value, torch.Tensor):
        return value
    base = value._base
    grad = value.grad if value.is_leaf else None
    return (
        value.tolist(),
        value.dtype,
        value.stride(),
        value.storage_offset(),
        value.untyped_storage().nbytes(),
        value._version,
        value.is_conj(),
        value.is_leaf,
        value.requires_grad,
        base is not None and (base.tolist(), tuple(base.shape), base.stride()),
        grad is not None and facts(grad),
    )
