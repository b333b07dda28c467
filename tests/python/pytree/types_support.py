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
