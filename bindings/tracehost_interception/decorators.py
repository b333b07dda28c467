"""What a script already decorates: the decorator is replaced by one that makes Functions.

A library's own use of its decorator is left alone. Undone by replace.undo_all().
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from .functions import decorated
from .messages import say
from .targets import Target

_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def routed(target: Target, owner: Any, original: Any) -> Any:
    """The decorator in place of `original`."""
    if target.module == "torch":
        from .torch_compile import compile_for
        from .torch_jit import script_for, trace_for

        makers: dict[str, Callable[[Any], Any]] = {
            "compile": compile_for,
            "jit.trace": trace_for,
            "jit.script": script_for,
        }
        if target.path in makers:
            return makers[target.path](original)
    made = _any_decorator(target, getattr(original, "__func__", original))
    return staticmethod(made) if isinstance(original, staticmethod) else made


def _any_decorator(target: Target, original: Any) -> Any:
    package = target.module.partition(".")[0]
    what = f"{target.module}.{target.path}"

    def decorator(*args: Any, **kwargs: Any) -> Any:
        frame = caller()
        if is_librarys_own(frame, package):
            return original(*args, **kwargs)
        where = place(frame)
        direct = bool(args) and _is_function(args[0])
        rest = args[1:] if direct else args
        options = [
            repr(value) if isinstance(value, (str, int, float)) else type(value).__name__
            for value in rest
        ]
        tell_meaningless(what, where, [*options, *kwargs])
        if direct:
            return decorated(args[0], what, where)
        return lambda function: decorated(function, what, where)

    return functools.update_wrapper(decorator, original, updated=())


def _is_function(value: Any) -> bool:
    is_method = isinstance(value, (staticmethod, classmethod))
    return is_method or (callable(value) and not isinstance(value, type))


def caller() -> FrameType:
    """Who called into this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame or sys._getframe()


def place(frame: FrameType) -> str:
    text = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    if "IPython" not in sys.modules:
        return text
    from tracehost._cells import in_cells

    return in_cells(text)


def is_of(frame: FrameType, package: str) -> bool:
    name = frame.f_globals.get("__name__") or ""
    return name == package or name.startswith(package + ".")


@functools.cache
def _libraries() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(os.path.join(path, "") for path in paths if path)


def is_librarys_own(frame: FrameType, package: str) -> bool:
    """A module of the user's may use its own decorator, a library's use is an affair of its own."""
    return is_of(frame, package) and frame.f_code.co_filename.startswith(_libraries())


_told: set[tuple[str, str]] = set()


def tell_meaningless(what: str, where: str, options: Iterable[str]) -> None:
    """Options of the decorator that say nothing to tracehost: each is named once."""
    new = [option for option in options if (what, option) not in _told]
    _told.update((what, option) for option in new)
    if new:
        verb = "has" if len(new) == 1 else "have"
        say(
            f"{what} at {where}: {', '.join(new)} {verb} no meaning for tracehost, and {'is' if len(new) == 1 else 'are'} left out"
        )
