"""Arguments of a C++ program: what annotations say that its maps and strings stand for.

C++ has no dataclasses. It passes a map of the fields' names. An annotation with a dataclass, a named tuple or an
enum says what is made of the map: that of the parameter, or of a field, a list's item or a dict's value in it.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any

from ._arguments.signature import mismatch
from ._function import _signature

_KIND = inspect._ParameterKind
Fit = Callable[[Any, str], Any]


def fitting(function: Any) -> Callable[[list[Any], list[str]], list[Any]] | None:
    """fit(values, keywords) -> the values as annotated, the last ones those of `keywords`; None: as they are."""
    body = function.python_function
    try:
        hints = typing.get_type_hints(body)
        parameters = list(_signature(body).parameters.values())
    except Exception:  # annotations that name nothing, callables without a signature
        return None
    fits = {p.name: fit for p in parameters if (fit := _fit_of(hints.get(p.name)))}
    if not fits:
        return None
    by_place = [
        p.name for p in parameters if p.kind in (_KIND.POSITIONAL_ONLY, _KIND.POSITIONAL_OR_KEYWORD)
    ]

    def fit(values: list[Any], keywords: list[str]) -> list[Any]:
        places = len(values) - len(keywords)
        names = [*by_place[:places], *[None] * max(0, places - len(by_place)), *keywords]
        return [fits[n](v, n) if n in fits else v for n, v in zip(names, values)]

    return fit


def _fit_of(hint: Any) -> Fit | None:
    """How a value of C++'s becomes one of `hint`; None: it stays as it is."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return lambda value, path: _member(hint, value, path)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        fields = [f for f in dataclasses.fields(hint) if f.init]
        none = dataclasses.MISSING
        return _record(hint, {f.name: f.default is f.default_factory is none for f in fields})
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return _record(hint, {n: n not in hint._field_defaults for n in hint._fields})
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [fit for a in arguments if a is not type(None) and (fit := _fit_of(a))]
        return None if len(inner) != 1 else lambda v, path: None if v is None else inner[0](v, path)
    if not arguments:  # typing.List alone says nothing of its items
        return None
    if origin is list or (origin is tuple and arguments[1:] == (...,)):
        fit = _fit_of(arguments[0])
        return fit and (lambda v, path: _items(v, path, repeat(fit)))
    if origin is tuple and any(fits := [_fit_of(a) for a in arguments]):
        return lambda v, path: _items(v, path, chain(fits, repeat(None)))
    if origin is dict and (fit := _fit_of(arguments[1])):
        return lambda v, path: (
            {k: fit(item, f"{path}[{k!r}]") for k, item in v.items()} if isinstance(v, dict) else v
        )
    return None


def _record(cls: type, fields: dict[str, bool]) -> Fit:
    """`fields`: whether one must be given, by name."""
    hints = typing.get_type_hints(cls)
    fits: dict[str, Fit | None] | None = None

    def fit(value: Any, path: str) -> Any:
        nonlocal fits
        if not isinstance(value, dict):
            return value
        for name, required in fields.items():
            if required and name not in value:
                what = f" lacks the field '{name}'"
                raise mismatch(path, f"the field '{name}'", "no such field", what)
        for name in value:
            if name not in fields:
                what = f" has the field '{name}', which {cls.__name__} has not"
                raise mismatch(path, f"no field '{name}'", repr(value[name]), what)
        if fits is None:  # not earlier: a class may have fields of its own kind
            fits = {name: _fit_of(hints.get(name)) for name in fields}
        given = {n: f(v, f"{path}.{n}") if (f := fits[n]) else v for n, v in value.items()}
        return cls(**given)

    return fit


def _items(value: Any, path: str, fits: Iterable[Fit | None]) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    return type(value)(
        fit(v, f"{path}[{i}]") if fit else v for i, (v, fit) in enumerate(zip(value, fits))
    )


def _member(cls: type[enum.Enum], value: Any, path: str) -> Any:
    """By the name that C++ gives it, `Color.RED`; other strings may be values."""
    if not isinstance(value, str) or isinstance(value, cls):
        return value
    owner, _, name = value.rpartition(".")
    if owner in (cls.__name__, cls.__qualname__) and name in cls.__members__:
        return cls.__members__[name]
    if issubclass(cls, str):
        return value
    members = ", ".join(f"{cls.__name__}.{member}" for member in cls.__members__)
    what = f" is {value!r}, none of {members}"
    raise mismatch(path, f"one of {members}", repr(value), what)
