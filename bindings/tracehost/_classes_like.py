"""Classes like those of an archive's values that are not imported.

dataclasses and namedtuple make methods from source text. An archive may come from a stranger, so nothing here compiles
or executes text: methods are written once, and go by the names of the fields.
"""

from __future__ import annotations

import dataclasses
import functools
import keyword
import operator
from typing import Any


def check_names(path: str, fields: tuple[str, ...]) -> None:
    """ValueError where they can't be a class's name and the names of its fields."""
    for name in (path.rpartition(".")[2], *fields):
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"{name!r} is no name of a class or a field")
    if len(set(fields)) < len(fields):
        raise ValueError(f"two fields of {path} have one name: {', '.join(fields)}")


class _Record:
    """What a dataclass has, for fields that may be missing. `__match_args__`, which dataclasses sets, has their names."""

    __match_args__: tuple[str, ...]

    def __init__(self, *values: Any, **named: Any) -> None:
        names = type(self).__match_args__
        if len(values) > len(names) or not named.keys() <= set(names[len(values) :]):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}")
        for name, value in [*zip(names, values), *named.items()]:
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        there = (name for name in type(self).__match_args__ if hasattr(self, name))
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in there)
        return f"{type(self).__qualname__}({shown})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            getattr(self, n, None) == getattr(other, n, None) for n in type(self).__match_args__
        )

    __hash__ = None  # type: ignore[assignment]


class _NamedTuple(tuple):
    """What collections.namedtuple gives."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, *values: Any, **named: Any) -> Any:
        rest = cls._fields[len(values) :]
        if len(values) > len(cls._fields) or named.keys() != set(rest):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
        return tuple.__new__(cls, (*values, *(named[name] for name in rest)))

    @classmethod
    def _make(cls, values: Any) -> Any:
        return cls(*values)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self))

    def _replace(self, **named: Any) -> Any:
        return type(self)(**(self._asdict() | named))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
        return f"{type(self).__name__}({shown})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


@functools.cache
def record_like(name: str, fields: tuple[str, ...]) -> type:
    """A dataclass. `name`: `module:Qualified.Name`. Raises ValueError."""
    module, _, path = name.partition(":")
    check_names(path, fields)
    made = dataclasses.make_dataclass(
        path.rpartition(".")[2], fields, bases=(_Record,), init=False, repr=False, eq=False
    )
    made.__module__, made.__qualname__ = module, path
    return made


@functools.cache
def named_tuple_like(name: str, fields: tuple[str, ...]) -> type:
    """A class of tuples with named items. `name`: `module:Qualified.Name`. Raises ValueError."""
    module, _, path = name.partition(":")
    check_names(path, fields)
    if any(field.startswith("_") for field in fields):
        raise ValueError(f"a field of a named tuple starts with '_': {', '.join(fields)}")
    own: dict[str, Any] = {
        field: property(operator.itemgetter(i)) for i, field in enumerate(fields)
    }
    own |= {"_fields": fields, "__match_args__": fields, "__slots__": (), "__module__": module}
    own["__qualname__"] = path
    return type(path.rpartition(".")[2], (_NamedTuple,), own)
