"""Which code is the user's: library code is left alone, unless it is asked for."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from ..._tracehost import origin
from .libraries import CONVERTED

_packages: set[str] = set(CONVERTED)
_rejected: dict[int, weakref.ref[CodeType]] = {}


def convert(package: Any) -> Any:
    """Have autograph convert a library's functions too, as it does the user's own.

    Only the user's code is converted by default: not the standard library, not what lies in
    site-packages, not torch and numpy. Functions that were called before the call of `convert` in a
    trace are converted from then on.

    Args:
        package: a package or module, or its name ("my_layers"); what lies below it is converted too.

    Returns:
        `package`, as it was given.

    Raises:
        TypeError: `package` is neither a module nor a name.
    """
    name = package.__name__ if isinstance(package, types.ModuleType) else package
    if not isinstance(name, str):
        raise TypeError(
            f"autograph.convert takes a package or its name, got {package!r}. The user's own functions are "
            "converted without it"
        )
    _packages.add(name)
    for forget in on_change:
        forget()
    return package


# Called when what was decided for a code object may no longer hold.
on_change: list[Callable[[], None]] = []


def do_not_convert(function: Any = None) -> Any:
    """Leave a function as it is: Python runs it, and a condition on a traced tensor in it is an error.

    Use it as a decorator, `@tracehost.autograph.do_not_convert`, or on a function before it is called:
    `helper = do_not_convert(helper)`. What the function calls is left as it is too.

    Args:
        function: a function, method, staticmethod, classmethod or any callable.

    Returns:
        `function` itself; for a callable object a function that calls it.

    Raises:
        TypeError: `function` is not callable.
    """
    if function is None:
        return do_not_convert
    inner = getattr(function, "__func__", function)
    if isinstance(inner, FunctionType):
        _reject(inner)
        for forget in on_change:
            forget()
        return function
    if not callable(function):
        raise TypeError(f"do_not_convert takes a callable, got {function!r}")
    if isinstance(function, (type, types.BuiltinFunctionType)):
        return function  # never converted

    @functools.wraps(function, updated=())
    def unconverted(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return unconverted


def _reject(function: FunctionType) -> None:
    """A decorator's wrapper shares its code with others: what it wraps is meant."""
    inner: Any = function
    while _is_library(inner.__code__) and type(inner.__dict__.get("__wrapped__")) is FunctionType:
        inner = inner.__wrapped__
    _rejected[id(inner.__code__)] = weakref.ref(inner.__code__)


def is_rejected(function: FunctionType) -> bool:
    rejected = _rejected.get(id(function.__code__))
    return rejected is not None and rejected() is function.__code__


def left_alone(function: FunctionType) -> str | None:
    """Why the function is not converted, going by where it comes from."""
    code = function.__code__
    if is_rejected(function):
        return "it is marked do_not_convert"
    module = function.__globals__.get("__name__") or ""
    name = f"{module}.{function.__qualname__}."
    if any(name.startswith(p + ".") for p in _packages):
        return None
    if not _is_library(code):
        return None
    top = module.partition(".")[0] or module
    return f"it is library code: tracehost.autograph.convert({top!r}) converts that too"


def _is_library(code: CodeType) -> bool:
    return origin(code.co_filename) != "user"


def left_alone_file(code: CodeType) -> str | None:
    """The same for code that no function object is at hand of."""
    if not _is_library(code):
        return None
    return "it is library code: tracehost.autograph.convert(its package) converts that too"
