"""Numbers of the graph in a text for people: print(), a logger, warnings.warn(), an exception that ends the trace.
They show this call's value.

Generated code says `ag__.call_shown(print)(ag__.shown(n), f"{ag__.shown(n):.3f}")`: what is called is known
before its arguments are computed.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any

from ... import _tracehost
from ..staging.state import is_read
from ..staging.where import is_caught
from .calls import call

_LOGGERS = (logging.Logger, logging.LoggerAdapter)
_FUNCTIONS = {print, warnings.warn, *(getattr(logging, n) for n in ("critical", "debug", "error", "exception",
    "info", "log", "warning"))}  # fmt: skip
_calls = threading.local()
_RAISES = "raises"


def _shows(f: Any) -> bool:
    if type(f) is MethodType:
        return (
            isinstance(f.__self__, _LOGGERS)
            and getattr(logging.Logger, f.__name__, None) is not None
        )
    try:
        return f in _FUNCTIONS
    except TypeError:  # it has no hash
        return False


def call_shown(f: Any) -> Callable[..., Any]:
    """What call() gives, for a function by whose name its arguments may be shown."""
    return _call_under(f, _shows(f))


def call_raised(f: Any) -> Callable[..., Any]:
    """The same of `raise f(...)`: the exception shows this call's values, unless the body itself may catch it."""
    return _call_under(f, _RAISES if isinstance(f, type) and not is_caught() else False)


def _call_under(f: Any, how: Any) -> Callable[..., Any]:
    """`how`: what shown() does until the call."""
    under_way = _under_way()
    under_way.append(how)
    made = call(f)

    def run(*args: Any, **kwargs: Any) -> Any:
        under_way.pop()
        return made(*args, **kwargs)

    return run


def _under_way() -> list[Any]:
    """For the calls whose arguments this thread computes now, one in the other."""
    return _calls.__dict__.setdefault("under_way", [])


def message_of(message: Callable[[], Any]) -> Any:
    """The message of an assert that fails."""
    under_way = _under_way()
    under_way.append(False if is_caught() else _RAISES)
    try:
        return message()
    finally:
        under_way.pop()


def shown(value: Any) -> Any:
    """The value in this call of a number of the graph, if the callee shows it; else `value` itself."""
    how = _calls.under_way[-1] if is_read(value) else False
    if not how:
        return value
    if not _tracehost._number_has_no_text(value):
        return _tracehost._number_value(value)
    # The graph has a text for what it raises.
    return value if how is _RAISES else _Unknown(value.__class__.__name__)


class _Unknown:
    """A number in a block that is not run."""

    def __init__(self, kind: str) -> None:
        self.text = f"<traced {kind}>"

    def __repr__(self) -> str:
        return self.text

    def __format__(self, spec: str) -> str:
        return self.text
