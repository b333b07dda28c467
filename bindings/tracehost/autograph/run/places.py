"""Attributes and items as part of a block's state: `self.x`, `d['k']`.

A block that stores to one has it restored and merged like a variable. What belongs to a tensor
(`t[0]`, `t.grad`) is not: the store is an op, recorded where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..conversion.undefined import Undefined, is_undefined
from .subscripts import Subscripted

Base = Callable[[], Any]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or type(value) is Subscripted


def get_attribute(base: Base, attribute: str, name: str) -> Any:
    try:
        owner = base()
        return Undefined(name) if _is_tensor(owner) else getattr(owner, attribute)
    except (AttributeError, LookupError, TypeError, NameError):
        return Undefined(name)


def set_attribute(base: Base, attribute: str, value: Any) -> None:
    if not is_undefined(value):
        setattr(base(), attribute, value)
        return
    try:
        owner = base()
        if not _is_tensor(owner):
            delattr(owner, attribute)
    except (AttributeError, LookupError, TypeError, NameError):
        pass  # it was not there


def get_item(base: Base, key: Base, name: str) -> Any:
    try:
        owner = base()
        return Undefined(name) if _is_tensor(owner) else owner[key()]
    except (AttributeError, LookupError, TypeError, NameError):
        return Undefined(name)


def set_item(base: Base, key: Base, value: Any) -> None:
    if not is_undefined(value):
        base()[key()] = value
        return
    try:
        owner = base()
        if not _is_tensor(owner) and not isinstance(owner, list):
            del owner[key()]
    except (AttributeError, LookupError, TypeError, NameError):
        pass
