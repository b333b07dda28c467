"""The variables of a staged block: taken apart into leaves, put together again.

A variable is a tensor, a Python value, or a container of them. What a graph can carry are tensors; Python
numbers become 0-dim tensors where blocks disagree about them; everything else has to stay the same.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree

from .._sizes import TracedSize
from .._tracehost import abandoned, sizes_now, without_data
from ._undefined import PREFIX, Undefined, is_undefined
from ._where import refuse

_NUMBERS = (bool, int, float)
# Compared by value; all else by identity.
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    slice,
    range,
)


class Poison(Undefined):
    """What can't be joined: an error only if it is used. `actual` is what this call has."""

    __slots__ = ("actual", "message")

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name)
        self.message = message
        self.actual: Any = Undefined(name)

    def read(self) -> Any:
        """Refused; where the body goes on without a trace, with what it has."""
        try:
            refuse(self.message)
        except Exception:
            if not abandoned() or without_data() or is_undefined(self.actual):
                raise
        return self.actual


def poison(name: str, message: str) -> Poison:
    """Of a variable. What sits in an object or a container can't be left out: refused at once."""
    if "." in name or "[" in name:
        refuse(message)
    return Poison(name, message)


class Parts:
    """A variable's leaves and what they hang on."""

    # No dataclass: the code that it generates would count as the user's in a trace.
    def __init__(self, leaves: list[Any], spec: Any) -> None:
        self.leaves, self.spec = leaves, spec

    def put(self, leaves: Sequence[Any]) -> Any:
        return _pytree.tree_unflatten(list(leaves), self.spec)


def take_apart(value: Any) -> Parts:
    if is_undefined(value) or is_tensor(value) or type(value) in _PLAIN:
        return Parts([value], _LEAF)
    return Parts(*_pytree.tree_flatten(value))


_LEAF = _pytree.tree_flatten(0)[1]


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and type(value) is not TracedSize


def is_number(value: Any) -> bool:
    return type(value) in _NUMBERS


def same(a: Any, b: Any) -> bool:
    """Whether nothing has to be joined."""
    if a is b:
        return True
    if type(a) is not type(b) or type(a) not in _PLAIN:
        return isinstance(a, types.MethodType) and a == b
    return a == b or (a != a and b != b)


def is_own(name: str) -> bool:
    """A flag or result of the generated code, not the user's variable."""
    return name.startswith(PREFIX)


def kind(value: Any) -> str:
    """For messages: `str 'a'`, `a float32 tensor of shape [3]`, `a list`."""
    if is_tensor(value):
        dtype = dtype_name(value.dtype)
        return f"{'an' if dtype[0] == 'i' else 'a'} {dtype} tensor of shape {sizes_now(value)}"
    if type(value) in _PLAIN and not isinstance(value, (torch.dtype, torch.device)):
        return f"{type(value).__name__} {value!r}" if value is not None else "None"
    return f"a {type(value).__name__}"


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ---- Numbers as tensors


def mark_number(t: torch.Tensor) -> torch.Tensor:
    """A tensor that is a Python number to the user: `i += 1` makes another one, and changes none in place."""
    t._tracehost_number = True  # type: ignore[attr-defined]
    return t


def is_marked(t: Any) -> bool:
    return is_tensor(t) and "_tracehost_number" in t.__dict__


def dtype_of(number: Any) -> torch.dtype:
    if type(number) is bool:
        return torch.bool
    return torch.int64 if type(number) is int else torch.get_default_dtype()


def promoted(number: Any, dtype: torch.dtype, device: Any = None) -> torch.Tensor:
    """A new 0-dim tensor each time the graph runs."""
    if type(number) is bool:
        number = int(number)  # TorchScript's full takes numbers
    return mark_number(torch.full((), number, dtype=dtype, device=device or "cpu"))


def common_dtype(a: Any, b: Any) -> torch.dtype | None:
    """Of a number and a number or tensor that are to be one tensor; None: they can't be."""
    if is_tensor(a) and is_tensor(b):
        return a.dtype if a.dtype == b.dtype else None
    if is_tensor(b):
        a, b = b, a
    if not is_tensor(a):
        return torch.promote_types(dtype_of(a), dtype_of(b))
    if is_marked(a):
        return torch.promote_types(a.dtype, dtype_of(b))
    fits = torch.can_cast(dtype_of(b), a.dtype) or (type(b) is float and a.dtype.is_floating_point)
    return a.dtype if fits else None
