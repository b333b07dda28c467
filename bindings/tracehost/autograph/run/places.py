"""Attributes and items as part of a block's state: `self.x`, `d['k']`.

A block that stores to one has it restored and merged like a variable. What belongs to a tensor
(`t[0]`, `t.grad`) is not: the store is an op, recorded where it stands. Nor is an element of an array, a
bytearray or another object of C code, which can't hold what a graph computes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..conversion.undefined import Undefined, is_undefined
from .subscripts import Subscripted

Thunk = Callable[[], Any]
_MISSING = (AttributeError, LookupError, TypeError, NameError)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or type(value) is Subscripted


def _is_memory(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return False
    try:
        memoryview(value)
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _get(get: Callable[..., Any], owner: Thunk, key: Thunk, name: str) -> Any:
    try:
        of = owner()
        if _is_tensor(of) or (get is _item and _is_memory(of)):
            return Undefined(name)
        return get(of, key())
    except _MISSING:
        return Undefined(name)


def _set(
    get: Callable[..., Any],
    store: Callable[..., Any],
    delete: Callable[..., Any],
    owner: Thunk,
    key: Thunk,
    value: Any,
) -> None:
    if _get(get, owner, key, "") is value:
        return  # an attribute of the class stays one
    if not is_undefined(value):
        store(owner(), key(), value)
        return
    try:
        of = owner()
        if not _is_tensor(of) and not isinstance(of, list) and not _is_memory(of):
            delete(of, key())
    except _MISSING:
        pass  # it was not there


# Instructions, of which a trace sees which element they read or store; the functions of operator ask all.


def _item(owner: Any, key: Any) -> Any:
    if isinstance(owner, dict) and hasattr(type(owner), "__missing__") and key not in owner:
        raise KeyError(key)  # a defaultdict would add it
    return owner[key]


def _set_item(owner: Any, key: Any, value: Any) -> None:
    owner[key] = value


def _delete_item(owner: Any, key: Any) -> None:
    del owner[key]


get_attribute = partial(_get, getattr)
get_item = partial(_get, _item)
set_attribute = partial(_set, getattr, setattr, delattr)
set_item = partial(_set, _item, _set_item, _delete_item)
