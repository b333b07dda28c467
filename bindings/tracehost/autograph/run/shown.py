"""Numbers of the graph in a text for people: print(), a logger, warnings.warn(), an exception that ends the trace.
They show this call's value.

Generated code says `ag__.call_shown(print)(ag__.shown(n), f"{ag__.shown(n):.3f}")`: what is called is known
before its arguments are computed.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any

from ... import _tracehost
from ..._traced.shown_calls import for_people, under_way
from ..._traced.traced_number import _shown
from ..staging.state import is_read, is_tensor, is_traced
from ..staging.where import is_caught
from .calls import call

_LOGGERS = (logging.Logger, logging.LoggerAdapter)
_FUNCTIONS = {print, warnings.warn, *(getattr(logging, n) for n in ("critical", "debug", "error", "exception",
    "info", "log", "warning"))}  # fmt: skip
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


def call_shown(f: Any, file: Any = None) -> Callable[..., Any]:
    """What call() gives, for a function by whose name its arguments may be shown.

    `file`: of print(), where the text goes. What the body itself reads there is a text like any other.
    """
    return _call_under(f, _shows(f) and not (f is print and _tracehost._keeps_print(file)))


def call_raised(f: Any) -> Callable[..., Any]:
    """The same of `raise f(...)`: the exception shows this call's values, unless the body itself may catch it."""
    return _call_under(f, _RAISES if isinstance(f, type) and not is_caught() else False)


def _call_under(f: Any, how: Any) -> Callable[..., Any]:
    """`how`: what shown() does until the call."""
    calls = under_way()
    depth = len(calls)
    calls.append(how)
    made = call(f)

    def call_with_shown(*args: Any, **kwargs: Any) -> Any:
        del calls[depth:]
        return made(*args, **kwargs)

    return call_with_shown


def message_of(message: Callable[[], Any]) -> Any:
    """The message of an assert that fails."""
    calls = under_way()
    depth = len(calls)
    calls.append(False if is_caught() else _RAISES)
    try:
        return message()
    finally:
        del calls[depth:]


def shown(value: Any) -> Any:
    """The value in this call of a number of the graph, if the callee shows it; else `value` itself."""
    calls = under_way()
    how = calls[-1] if calls and is_traced(value) else False
    if not how:
        return value
    if is_tensor(value):
        return _Shown(value) if how is not _RAISES and _tracehost._can_be_read(value) else value
    if not _tracehost._number_has_no_text(value):
        return _tracehost._number_value(value)
    # The graph has a text for what it raises.
    return value if how is _RAISES else _Unknown(value.__class__.__name__)


def in_text(values: Any) -> Any:
    """What `"%.3f" % values` takes: the numbers that a text of Python's shows."""
    if type(values) is tuple:
        return tuple(map(_in_text, values))
    if type(values) is dict:
        return {key: _in_text(value) for key, value in values.items()}
    return _in_text(values)


def _in_text(value: Any) -> Any:
    if is_tensor(value) and _tracehost._can_be_read(value):
        return _Kept(value)
    if not is_read(value) or _tracehost._number_has_no_text(value):
        return value
    return _shown(value, "")


class _Shown:
    """A tensor of one element: `{loss:.3f}`, `%.3f`, and `{loss}` if it has no dimensions, show its value."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __repr__(self) -> str:
        return for_people(lambda: repr(self.tensor))

    def __format__(self, spec: str) -> str:
        return format(self._value(), spec) if spec or self.tensor.dim() == 0 else repr(self)

    def __float__(self) -> float:
        return float(self._value())

    def __int__(self) -> int:
        return int(self._value())

    __index__ = __int__

    def _value(self) -> Any:
        number = self.tensor.item()
        if not is_read(number):  # a logger's handler may ask behind the trace
            return number
        known = not _tracehost._number_has_no_text(number)
        return _tracehost._number_value(number) if known else _Unknown(number.__class__.__name__)


class _Kept(_Shown):
    """The same in a text that the body may keep."""

    def __repr__(self) -> str:
        return repr(self.tensor)

    def _value(self) -> Any:
        return _shown(self.tensor.item(), "")


class _Unknown:
    """A number in a block that is not run. `%.3f` shows it as nan."""

    def __init__(self, kind: str) -> None:
        self.text = f"<traced {kind}>"

    def __repr__(self) -> str:
        return self.text

    def __format__(self, spec: str) -> str:
        return self.text

    def __float__(self) -> float:
        return float("nan")

    def __int__(self) -> int:
        return 0

    __index__ = __int__
