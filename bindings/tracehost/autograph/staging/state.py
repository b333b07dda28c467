"""The variables of a staged block: taken apart into leaves, put together again.

A variable is a tensor, a Python value, or a container of them. A graph carries tensors.
Numbers of the graph are 0-dim tensors at the borders of a block (bool, int64, float64), and so are Python
numbers that blocks disagree about. Everything else has to stay the same.
"""

from __future__ import annotations

import enum
import math
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence
from typing import Any

import torch

from ..._arguments.dtypes import name_of
from ..._arguments.trees import LEAF, Spec, flatten, read_all
from ..._traced.traced_number import TracedNumber
from ..._tracehost import (
    _number_is_read,
    _number_tensor,
    _read_number,
    observed,
    reaches,
    sizes_now,
)
from ..conversion.undefined import PREFIX, Undefined, is_undefined
from .where import reject, reject_here

_NUMBERS = (bool, int, float)
_TYPES = {torch.bool: bool, torch.int64: int, torch.float64: float}
# Compared by value; all else by identity.
_PLAIN = (*_NUMBERS, complex, str, bytes, type(None), torch.dtype, torch.device, slice, range)
MUTABLE = (list, dict, OrderedDict, defaultdict, deque)
CONTAINERS = (tuple, *MUTABLE)


class Poison(Undefined):
    """What can't be joined: an error only if it is used. `actual` is what this call has."""

    __slots__ = ("actual", "message")

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name)
        self.message = message
        self.actual: Any = Undefined(name)

    def read(self) -> Any:
        """Raises. Where the body continues without a trace, returns what the variable has."""
        if is_undefined(self.actual):
            reject(self.message)
        reject_here(self.message)
        return self.actual


def poison(name: str, message: str) -> Poison:
    """For a variable. A value in an object or a container can't be left out, so that raises at once."""
    if "." in name or "[" in name:
        reject(message)
    return Poison(name, message)


class Parts:
    """A variable's leaves and what they hang on."""

    # No dataclass: the code that it generates would count as the user's in a trace.
    def __init__(self, leaves: list[Any], spec: Spec, containers: Sequence[Any] = ()) -> None:
        self.leaves, self.spec = leaves, spec
        self.containers = containers  # the nodes of `spec`, the outer one first
        self.handles: dict[int, int] = {}  # a leaf's tensor, as Branches.run calls it

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if is_tensor(leaf)]

    def put(
        self, leaves: Sequence[Any], keys: Sequence[Any] | None = None, made: Any = None
    ) -> Any:
        """`keys`, `made`: as those of Spec.unflatten()."""
        return self.spec.unflatten(leaves, keys, made)


def take_apart(value: Any) -> Parts:
    """Numbers of the graph are tensors among the leaves."""
    if is_undefined(value) or is_tensor(value) or type(value) in _PLAIN:
        return Parts([value], LEAF)
    if is_read(value):
        return Parts([mark(_number_tensor(value))], LEAF)
    containers: list[Any] = []
    leaves, spec = flatten(value, _is_no_container, containers)
    leaves = [mark(_number_tensor(x)) if is_read(x) else x for x in leaves]
    return Parts(leaves, spec, containers)


def _is_no_container(value: Any) -> bool:
    """False for a container: the elements of one that was there before are read, as the body would."""
    if type(value) not in CONTAINERS and not (
        isinstance(value, tuple) and hasattr(value, "_fields")
    ):
        return type(value) in _PLAIN
    if reaches(value):
        observed(read_all, value, list(value) if isinstance(value, dict) else range(len(value)))
    return False


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and type(value) is not TracedNumber


def is_read(value: Any) -> bool:
    """A number of the graph, that is no size."""
    return type(value) is TracedNumber and _number_is_read(value)


def is_traced(value: Any) -> bool:
    """A tensor, or a number of the graph."""
    return is_tensor(value) or is_read(value)


def as_tensor(value: Any) -> Any:
    """A 0-dim tensor for a number of the graph; else the value itself."""
    return _number_tensor(value) if is_read(value) else value


def is_number(value: Any) -> bool:
    return type(value) in _NUMBERS


def same(a: Any, b: Any) -> bool:
    """Whether nothing has to be joined."""
    if a is b:
        return True
    if type(a) is not type(b) or type(a) not in _PLAIN:
        return isinstance(a, types.MethodType) and a == b
    if type(a) is float and a == b == 0:
        return math.copysign(1, a) == math.copysign(1, b)
    return a == b or (a != a and b != b)


def is_own(name: str) -> bool:
    """A flag or result of the generated code, not the user's variable."""
    return name.startswith(PREFIX)


def kind(value: Any) -> str:
    """For messages: `str 'a'`, `a float32 tensor of shape [3]`, `a list`."""
    if is_marked(value):
        return f"a traced {_TYPES[value.dtype].__name__}"
    if is_tensor(value):
        dtype = name_of(value.dtype)
        return f"{'an' if dtype[0] == 'i' else 'a'} {dtype} tensor of shape {sizes_now(value)}"
    if is_read(value):
        return f"a traced {value.__class__.__name__}"
    if type(value) in _PLAIN and not isinstance(value, (torch.dtype, torch.device)):
        return f"{type(value).__name__} {value!r}" if value is not None else "None"
    return repr(value) if isinstance(value, enum.Enum) else f"a {type(value).__name__}"


# ---- Numbers as tensors, at the borders of a block


def mark(t: torch.Tensor) -> torch.Tensor:
    """A tensor that is a number to the user, in the block and behind it."""
    t._tracehost_number = True  # type: ignore[attr-defined]
    return t


def is_marked(t: Any) -> bool:
    return is_tensor(t) and "_tracehost_number" in t.__dict__


def as_number(t: torch.Tensor) -> Any:
    """The number that the user sees in place of a 0-dim tensor."""
    return _read_number(t)


def zeros_like(t: torch.Tensor) -> torch.Tensor:
    """New zeros of its sizes now; a number to the user if `t` is one."""
    zeros = torch.zeros(sizes_now(t), dtype=t.dtype, device=t.device)
    return mark(zeros) if is_marked(t) else zeros


def dtype_of(number: Any) -> torch.dtype:
    if type(number) is bool:
        return torch.bool
    return torch.int64 if type(number) is int else torch.float64


def promoted(number: Any, dtype: torch.dtype, device: Any = None) -> torch.Tensor:
    """A new 0-dim tensor each time the graph runs."""
    if type(number) is bool:
        number = int(number)  # TorchScript's full takes numbers
    return mark(torch.full((), number, dtype=dtype, device=device or "cpu"))


def type_of(value: Any) -> type | None:
    """Of what is a number to the user; None for a tensor."""
    if is_marked(value):
        return _TYPES[value.dtype]
    return type(value) if is_number(value) else None


def have_one_type(a: Any, b: Any) -> bool:
    """False: of two numbers one is a bool. No tensor holds both: to Python False and 0 differ."""
    types = {type_of(a), type_of(b)}
    return None in types or len(types) == 1 or bool not in types


def common_dtype(a: Any, b: Any) -> torch.dtype | None:
    """The dtype if a number and a number or tensor become one tensor; None: they can't."""
    numbers = [x for x in (a, b) if not is_tensor(x) or is_marked(x)]
    dtypes = [x.dtype if is_tensor(x) else dtype_of(x) for x in (a, b)]
    if len(numbers) == 2:
        return torch.promote_types(*dtypes)
    if not numbers:
        return dtypes[0] if dtypes[0] == dtypes[1] else None
    number, tensor = dtypes if numbers[0] is a else reversed(dtypes)
    fits = torch.can_cast(number, tensor) or (number.is_floating_point and tensor.is_floating_point)
    return tensor if fits else None
