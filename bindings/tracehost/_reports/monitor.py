"""Counting traces: a decorator that watches the Function below it."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from .. import _tracehost
from .._cells import in_cells
from .._errors import RetraceWarning, TraceError
from .._tracehost import Function
from .report import Event, latest_traces, retraces


def function_of(function: Any, who: str) -> Function:
    """The Function itself: of a method, or below a monitor."""
    if isinstance(function, TraceMonitor):
        function = function.__wrapped__
    function = getattr(function, "__func__", function)
    if not isinstance(function, Function):
        raise TypeError(
            f"{who} takes a Function, got {function!r}. Put it above @tracehost.function, not below."
        )
    return function


def summary(function: Function, count: int, more: str = "", end: str = "") -> str:
    """`step (train.py:12) was traced 2 times` and `more`; a line for each of these latest traces, with its number,
    the line of the call, and why. `end`: in place of the lines where there are none."""
    place = repr(function).rsplit(" at ", 1)[1].rsplit(",", 1)[0]
    times = "once" if count == 1 else f"{count} times"
    text = f"{function.name} ({in_cells(place)}) was traced {times}{more}"
    traces = latest_traces(count, function)
    lines = [f"  {count - len(traces)} earlier, not remembered"] if len(traces) < count else []
    for number, trace in enumerate(traces, count - len(traces) + 1):
        lines.append(f"  {number}. {trace.call}: {why(trace)}")
    return "\n".join([f"{text}:", *lines]) if lines else text + end


def why(trace: Event) -> str:
    return "; ".join(trace.causes) or f"first trace, {trace.signature}"


def counted(number: int, what: str) -> str:
    """`1 hit`, `2 hits`"""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(count: int, allowed: str) -> str:
    """`3 traces, 2 allowed (max_traces):` and a line for each of these latest traces of all Functions."""
    return "\n".join(
        [f"{counted(count, 'trace')}, {allowed}:", *_rows(latest_traces(count), count)]
    )


class Retraces:
    """Counts retraces from now on, of all Functions: traces that calls make and that have a cause.

    Args:
        at_start: from the start of the process.
    """

    def __init__(self, at_start: bool = False) -> None:
        self._before = 0 if at_start else _tracehost.totals()[1]

    def found(self) -> str:
        """`2 retraces, none allowed:` and a line for each of them; empty: there were none."""
        count = _tracehost.totals()[1] - self._before
        if not count:
            return ""
        head = f"{counted(count, 'retrace')}, none allowed:"
        return "\n".join([head, *_rows(retraces(count), count)])


def _rows(traces: list[Event], count: int) -> list[str]:
    earlier = [f"  {count - len(traces)} earlier, not remembered"] if len(traces) < count else []
    return [
        *earlier,
        *(
            f"  {trace.function} ({trace.definition}), at {trace.call}: {why(trace)}"
            for trace in traces
        ),
    ]


class TraceMonitor:
    """What `trace_monitor` returns: calls the Function, and looks after each call whether it traced.

    All else (`stats()`, `tracing_count()` ...) is the Function's.
    """

    def __init__(self, function: Any, budget: int | None, on_exceed: str) -> None:
        self._function = function_of(function, "trace_monitor")
        functools.update_wrapper(self, function, updated=())
        self._budget, self._on_exceed = budget, on_exceed
        self._before = self._seen = self._function.tracing_count()
        self._lock = threading.Lock()

    @property
    def traces(self) -> list[Event]:
        """The traces since the monitor was made, oldest first: `Event`s with cause, line and cost."""
        return latest_traces(self.count, self._function)

    @property
    def count(self) -> int:
        """How many traces there were since the monitor was made."""
        return self._function.tracing_count() - self._before

    def report(self) -> str:
        """A text: how often the Function was traced, and for each trace the line and the cause."""
        return summary(self._function, self.count, self._of_budget(), ".")

    def _of_budget(self) -> str:
        return "" if self._budget is None else f", budget {self._budget}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.__wrapped__(*args, **kwargs)
        if self._function.tracing_count() != self._seen:
            self._check()
        return result

    def _check(self) -> None:
        with self._lock:  # each trace is reported once
            now = self._function.tracing_count()
            is_news, self._seen = now != self._seen, now
        count = now - self._before
        if not is_news or self._budget is None or count <= self._budget:
            return
        message = summary(self._function, count, f", over its budget of {self._budget}")
        if self._on_exceed == "error":
            raise TraceError(message)
        warnings.warn(message, RetraceWarning, stacklevel=3)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        bound = self.__wrapped__.__get__(instance, owner)
        if bound is self.__wrapped__:
            return self
        monitor = TraceMonitor(bound, self._budget, self._on_exceed)
        monitor._before = 0  # an instance's Function is as old as its first call here
        return monitor

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # not made yet
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return f"<trace_monitor of {self._function!r}{self._of_budget()}>"


def trace_monitor(
    function: Callable[..., Any] | None = None,
    *,
    budget: int | None = None,
    on_exceed: str = "warn",
) -> Any:
    """Count the traces of the Function below, and say so when there are more than a budget allows.

        @tracehost.trace_monitor(budget=3)
        @tracehost.function
        def step(x): ...

        step.count, step.report()

    Each trace beyond the budget makes one message, which lists all traces with the line of the call and
    the cause. A method has the budget for each instance. A call costs a Python call more.

    Args:
        function: a Function, or a method that is one.
        budget: traces allowed from now on; None: they are only counted.
        on_exceed: "warn": a RetraceWarning at the line of the call; "error": a TraceError, raised after
            the call has traced: its effects on tensors stay done.

    Raises:
        TypeError: `function` is not a Function, or `budget` not a number.
        ValueError: `budget` is negative, or `on_exceed` unknown.
    """
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool)):
        raise TypeError(f"budget must be an int or None, got {budget!r}")
    if budget is not None and budget < 0:
        raise ValueError(f"budget must not be negative, got {budget}")
    if on_exceed not in ("warn", "error"):
        raise ValueError(f"on_exceed must be 'warn' or 'error', got {on_exceed!r}")
    if function is None:
        return functools.partial(trace_monitor, budget=budget, on_exceed=on_exceed)
    return TraceMonitor(function, budget, on_exceed)
