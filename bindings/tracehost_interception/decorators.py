"""What a script already decorates: the decorator is replaced by one that makes Functions.

A library's own use of its decorator is left alone. Undone by replace.undo_all().
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .call_site import caller, is_librarys_own, place
from .functions import function_of
from .messages import report_meaningless
from .targets import Target


def routed(target: Target, original: Any) -> Any:
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
        report_meaningless(what, where, [*options, *kwargs])
        shown = f"{what} at {where}: what it decorates"
        if direct:
            return function_of(args[0], shown)
        return lambda function: function_of(function, shown)

    return functools.update_wrapper(decorator, original, updated=())


def _is_function(value: Any) -> bool:
    is_method = isinstance(value, (staticmethod, classmethod))
    return is_method or (callable(value) and not isinstance(value, type))
