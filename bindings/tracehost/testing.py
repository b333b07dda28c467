"""For the tests of programs that use tracehost."""

from __future__ import annotations

import warnings
from typing import Any

from ._reports.monitor import Retraces, function_of, summary

__all__ = ["assert_traces", "no_retraces"]


class assert_traces:
    """Check that a block traces a Function exactly `n` times.

        with tracehost.testing.assert_traces(step, 1):
            step(x)
            step(y)

    Args:
        function: a Function, a method (the instance's Function is meant), or a `trace_monitor`.
        n: how many traces there must be, those by `get_concrete_function` included.

    Raises:
        AssertionError: at the end of the block, if there were more or fewer. It lists each trace with
            the line of the call and the cause. An exception of the block itself is left alone.
        TypeError: `function` is not a Function, or `n` not a number.
    """

    def __init__(self, function: Any, n: int) -> None:
        self._entered = True  # until the arguments are known to be right
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(f"assert_traces takes a number of traces, got {n!r}")
        self._function, self._n = function_of(function, "assert_traces"), n
        self._before = 0
        self._entered = False

    def __enter__(self) -> None:
        self._entered = True
        self._before = self._function.tracing_count()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        count = self._function.tracing_count() - self._before
        if kind is not None or count == self._n:
            return
        raise AssertionError(summary(self._function, count, f" in this block, expected {self._n}"))

    def __del__(self) -> None:
        if not self._entered:
            _warn_of_nothing("assert_traces(...)")


class no_retraces:
    """Check that no call in a block traces a Function again.

        step(x)  # the first trace
        with tracehost.testing.no_retraces():
            train(step, loader)

    First traces, and those by `get_concrete_function`, are allowed. Calls of other threads count, too.

    Raises:
        AssertionError: at the end of the block, if a call of any Function has traced again. It lists each
            retrace with the Function, the line of the call and the cause. An exception of the block
            itself is left alone.
    """

    def __init__(self) -> None:
        self._entered = False

    def __enter__(self) -> None:
        self._entered = True
        self._retraces = Retraces()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        text = "" if kind else self._retraces.found()
        if text:
            raise AssertionError(text)

    def __del__(self) -> None:
        if not self._entered:
            _warn_of_nothing("no_retraces()")


def _warn_of_nothing(call: str) -> None:
    name = call.partition("(")[0]
    warnings.warn(f"{name} checked nothing: write `with {call}:`", RuntimeWarning, stacklevel=3)
