"""Switches: what a call may do where no specialization serves it; whether a trace is under way."""

from __future__ import annotations

from collections.abc import Callable

from . import _tracehost
from ._tracehost import Stance as _Stance

_NAMES = ("default", "eager", "eager_on_miss", "eager_on_error", "fail_on_miss")


class Switch:
    """What a switch returns. The call itself has set it for the process; as a context manager it takes
    that back, and sets it for the current thread until the block ends."""

    def __init__(self, inside: _Stance, take_back: Callable[[], None]) -> None:
        self._inside = inside
        self._take_back: Callable[[], None] | None = take_back

    def __enter__(self) -> None:
        if self._take_back is not None:
            self._take_back()
            self._take_back = None
        _tracehost.push_stance(self._inside)

    def __exit__(self, *error: object) -> None:
        _tracehost.pop_stance()


def stance(name: str) -> Switch:
    """Choose what calls of Functions do.

    A plain call holds for the whole process, until the next one. As a context manager, `with
    tracehost.stance("fail_on_miss"):`, it holds for the current thread and the block, over the stance
    of the process. Calls in a trace are part of it in any stance.

    Args:
        name: one of
            "default": a call that no specialization serves is traced;
            "eager": every call runs the Python function as it is: nothing is compared, converted,
                checked against an input_signature, or counted by the retrace detector;
            "eager_on_miss": such a call runs the Python function, and nothing is traced;
            "eager_on_error": an unsupported trace continues without a graph, from the line
                that is unsupported: the body runs once, its result is the call's, a TraceWarning says
                why. Later calls with this signature run the Python function without trying again,
                until the Function is cleared. What the body itself raises is raised;
            "fail_on_miss": such a call raises a TraceError that names what differs.

    Returns:
        A context manager; a plain call has no use for it.

    Raises:
        ValueError: there is no stance of this name.
    """
    if name not in _NAMES:
        raise ValueError(f"there is no stance {name!r}; there are {', '.join(map(repr, _NAMES))}")
    chosen = getattr(_Stance, name)
    before = _tracehost.exchange_process_stance(chosen)

    def take_back() -> None:
        if _tracehost.process_stance() == chosen:
            _tracehost.exchange_process_stance(before)

    return Switch(chosen, take_back)


def no_retrace() -> Switch:
    """Make a call that no specialization serves an error: `stance("fail_on_miss")`.

    Call it once after warming up, or around the calls that must not trace: `with
    tracehost.no_retrace():`. The TraceError names what differs from the nearest specialization.
    """
    return stance("fail_on_miss")


def run_functions_eagerly(run_eagerly: bool) -> Switch:
    """Run all Functions as plain Python, to debug or to compare; or no longer.

    Nothing is compared, converted, checked or counted then: each call runs the Python function. Traces
    that were made before stay, and serve again afterwards. A plain call holds for the whole process; as
    a context manager it holds for the current thread and the block.

    Args:
        run_eagerly: True: run them eagerly; False: as `stance` says.

    Raises:
        TypeError: `run_eagerly` is not a bool.
    """
    if not isinstance(run_eagerly, bool):
        raise TypeError(f"run_functions_eagerly takes a bool, got {run_eagerly!r}")
    before = _tracehost.exchange_eagerly(run_eagerly)
    inside = _Stance.eager if run_eagerly else _tracehost.process_stance()
    return Switch(inside, lambda: _tracehost.exchange_eagerly(before) and None)


def functions_run_eagerly() -> bool:
    """Whether calls on this thread run as plain Python, by `run_functions_eagerly` or `stance`."""
    return _tracehost.stance() == _Stance.eager


def inside_function() -> bool:
    """Whether the code that asks runs in a body that is being traced, on this thread."""
    return _tracehost.inside_function()


def executing_eagerly() -> bool:
    """Whether the code that asks runs as plain Python: not in a body that is being traced, on this thread.

    True outside of Functions, under `run_functions_eagerly(True)`, in `init_scope`, and in what `py_function`
    calls. A body asks at the trace, where it is False.
    """
    return not _tracehost.inside_function()
