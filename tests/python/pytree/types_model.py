"""What a call is compared by, once more, as plainly as docs/rules/signature.md says it: the oracle of the properties."""

import collections
import dataclasses
import enum
import functools
import types
from collections.abc import Hashable, Iterable
from typing import Any

import torch
from types_support import AttrsLike, Pair, Registered

Key = tuple[Hashable, ...]


class Equal:
    """Compared by its own equality."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and self.k == other.k

    def __hash__(self) -> int:
        return self.k


class Typed:
    """Says itself what it is compared by."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __tracehost_type__(self) -> int:
        return self.k


class Real(float):
    pass


class Number(int):
    pass


class Thing:
    """Compared by identity."""

    def method(self) -> None:
        pass


class Level(enum.IntEnum):
    low = 1
    high = 2


def number(value: Any) -> Key:
    """NaN equals itself, 0.0 and -0.0 differ."""
    if isinstance(value, complex):
        return ("complex", number(value.real), number(value.imag))
    if isinstance(value, float):
        return ("float", "nan" if value != value else value.hex())
    return (type(value).__name__, value)


class Model:
    """Calls share a graph if, and only if, their arguments have equal keys. One Model a call."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.objects: list[Any] = []

    def key(self, value: Any) -> Key:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if value is None or type(value) in (bool, int, float, complex):
            return number(value)
        if type(value) in (str, bytes, bytearray, torch.dtype, torch.device):
            return (type(value).__name__, bytes(value) if isinstance(value, bytearray) else value)
        if isinstance(value, types.MethodType):
            return ("method", id(value.__self__), id(value.__func__))
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, enum.Enum)):
            return ("this", id(value))
        if isinstance(value, Thing):
            return ("this", id(value))
        if isinstance(value, (Equal, Typed, Real, Number)):
            return self.equal(value)
        return self.container(value)

    def tensor(self, value: torch.Tensor) -> Key:
        for i, known in enumerate(self.tensors):
            if known is value:
                return ("tensor", i)
        self.tensors.append(value)
        facts = (type(value), value.dtype, value.shape, value.layout, value.requires_grad)
        return ("tensor", len(self.tensors) - 1, *facts)

    def equal(self, value: Any) -> Key:
        """Equal objects come in each other's place, but an object met twice is the same one twice."""
        for i, known in enumerate(self.objects):
            if known is value:
                return ("again", i)
        self.objects.append(value)
        if isinstance(value, Real):
            return ("Real", number(float(value)))
        return (type(value).__name__, int(value) if isinstance(value, Number) else value.k)

    def container(self, value: Any) -> Key:
        children, fields = self.children(value)
        attributes = {k: v for k, v in vars_of(value).items() if k not in fields}
        own = []
        if isinstance(value, collections.defaultdict):
            own.append(self.key(value.default_factory))
        if isinstance(value, collections.deque):
            own.append(("maxlen", value.maxlen))
        rest = [] if isinstance(value, (Pair, Registered)) else self.pairs(attributes.items())
        return (type(value), *children, "and", *own, *rest)

    def children(self, value: Any) -> tuple[list[Hashable], Iterable[str]]:
        """Keys of what it holds, and the names of attributes that are among that."""
        if isinstance(value, Pair):
            return [self.context(value.note), self.key(value.a), self.key(value.b)], ()
        if isinstance(value, Registered):
            return [(k, self.key(v)) for k, v in vars(value).items() if v is not None], ()
        if isinstance(value, (collections.abc.Mapping)):
            return self.pairs(dict.items(value) if isinstance(value, dict) else value.items()), ()
        if isinstance(value, (list, tuple, collections.deque, frozenset)):
            return [self.key(v) for v in value], ()
        names: Iterable[str]
        if dataclasses.is_dataclass(value):
            names = [f.name for f in dataclasses.fields(value)]
        elif isinstance(value, AttrsLike):
            names = ["a", "b"]
        elif isinstance(value, (slice, range)):
            names = ["start", "stop", "step"]
        else:
            assert isinstance(value, functools.partial), value
            names = ["func", "args", "keywords"]
        given = [(n, self.key(getattr(value, n))) for n in names if hasattr(value, n)]
        return [*given], names

    def pairs(self, items: Iterable[tuple[Any, Any]]) -> list[Hashable]:
        return [(self.key(k), self.key(v)) for k, v in items]

    def context(self, value: Any) -> Hashable:
        """By value, for any type."""
        if isinstance(value, set):
            return ("set", frozenset(value))
        if isinstance(value, list):
            return ("list", *map(self.context, value))
        return number(value) if isinstance(value, (int, float)) else (type(value), value)


def vars_of(value: Any) -> dict[str, Any]:
    return dict(getattr(value, "__dict__", {}))
