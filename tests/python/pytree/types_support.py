"""What the tests of trace types share."""

import collections
import dataclasses
import typing
from typing import Any

import torch
import torch.utils._pytree as pytree


def traces(f: Any, *calls: tuple[Any, ...]) -> str:
    """How many of the calls traced, one digit each."""
    result = ""
    for args in calls:
        before = f.tracing_count()
        f(*args)
        result += str(f.tracing_count() - before)
    return result


class Key:
    """One key for any dict, equal to each other one."""

    def __init__(self, w: Any) -> None:
        self.w = w

    def __eq__(self, other: object) -> bool:
        return type(other) is Key

    def __hash__(self) -> int:
        return 1


class AttrsLike:
    """What attrs makes, as far as others look at it: attrs itself need not be installed."""

    class Attribute:
        def __init__(self, name: str) -> None:
            self.name = name

    __attrs_attrs__ = (Attribute("a"), Attribute("b"))

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class Point(typing.NamedTuple):
    x: object
    y: object = 0


@dataclasses.dataclass
class Base:
    x: object
    scale: typing.ClassVar[float] = 2.0
    seed: dataclasses.InitVar[int] = 0

    def __post_init__(self, seed):
        pass


@dataclasses.dataclass
class Derived(Base):
    y: object = 1
    late: object = dataclasses.field(init=False)


@dataclasses.dataclass(slots=True)
class Slots:
    x: object
    y: object = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    y: object = 1


class Words(list):
    pass


class Table(dict):
    def __iter__(self):
        raise RuntimeError("not this way")


class OwnMapping(collections.abc.Mapping):
    def __init__(self, items):
        self.items_ = items

    def __getitem__(self, key):
        return self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


class Pair:
    """Registered with torch's pytree."""

    def __init__(self, a, b, note=None):
        self.a, self.b, self.note = a, b, note


pytree.register_pytree_node(
    Pair,
    lambda p: ([p.a, p.b], p.note),
    lambda children, note: Pair(*children, note),
    serialized_type_name="types_support.Pair",
)


@dataclasses.dataclass
class Registered:
    x: object
    y: object = None


torch.export.register_dataclass(Registered, serialized_type_name="types_support.Registered")


def with_attributes(value, **attributes):
    vars(value).update(attributes)
    return value


# ---- A type whose tensors have lengths: the wider trace takes longer ones


def doubled(s, x):
    return s.t * 2 + x.sum()


class Length:
    """Of lists of numbers up to a bound: padded with zeros to it."""

    def __init__(self, bound):
        self.bound = bound

    def is_subtype_of(self, other):
        return type(other) is type(self) and self.bound <= other.bound

    def most_specific_common_supertype(self, others):
        return type(self)(max(self.bound, *(o.bound for o in others)))

    def cast(self, value, context):
        assert context.value is value
        assert (context.tensors, context.argument) == ((), None)
        rest = self.bound - len(value.t)
        return value if rest == 0 else type(value)(torch.nn.functional.pad(value.t, (0, rest)))

    def to_tensors(self, value):
        return [value.t]

    def from_tensors(self, tensors):
        return Numbers(next(tensors))

    def __eq__(self, other):
        return type(other) is type(self) and self.bound == other.bound

    def __hash__(self):
        return self.bound

    def __repr__(self):
        return f"Length({self.bound})"


class Numbers:
    kind = Length

    def __init__(self, t):
        self.t = t

    def __tracehost_type__(self):
        return self.kind(len(self.t))


class SameNumbers(Numbers):
    pass


def numbers(n, cls=Numbers):
    return cls(torch.arange(1.0, n + 1))


def padded(n, to):
    return torch.nn.functional.pad(torch.arange(1.0, n + 1), (0, to - n)) * 2 + 2
