"""What happened, on request: `tracehost.report()`, `tracehost.events()`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .. import _tracehost
from .._cells import anywhere, table_in_cells
from .words import table, warning


@dataclass(frozen=True)
class Event:
    """What happened, once, to a Function."""

    kind: str
    """`"trace"`, `"warn"` (a RetraceWarning, or a cause that came after the two of a function), `"evict"`,
    `"fail"` (a trace that raised; nothing is kept), `"mismatch"` (a graph that did not do what the body did; nothing is kept of it). With `graphs=True`:
    `"tape"` (the first kernel tape of a graph was made), `"no_tape"` (the graph will have none),
    `"drop_tape"` (its tapes have gone), `"capture"` (a CUDA graph was made), `"no_capture"` (there will
    be none) or `"drop"` (a CUDA graph is gone)"""
    function: str
    """the Function's name"""
    definition: str
    """where it is defined: `train.py:12`"""
    call: str
    """the line of the call that brought it about: `train.py:40`"""
    signature: str = ""
    """trace, evict, mismatch, tapes, CUDA graphs: `(x: float32[8, 3], n=2)`"""
    causes: tuple[str, ...] = ()
    """trace: why, a sentence each, `argument 'x', dimension 1, was 12, is 15`; none at the first trace"""
    text: str = ""
    """warn: the warning; fail: the error's type and message; mismatch: what differs first, and the op;
    no_tape, drop_tape, no_capture, drop: why; tape: `a tape + 1 region (3 of 3 ops)`"""
    notes: tuple[str, ...] = ()
    """trace: dimensions that had to stay exact, what a check at a second size found, why it was not
    validated"""
    ms: float = 0.0
    """trace: milliseconds"""
    ops: int = 0
    """trace: ops of the graph; tape, capture: ops that it runs"""
    bytes: int = 0
    """tape: of planned memory; capture, drop: by how much the device's memory for CUDA graphs changed"""
    hits: int = 0
    """evict, mismatch: calls that it served in its life"""
    time: float = 0.0
    """seconds since the epoch"""
    dynamic: bool = False
    """trace: some dimensions are dynamic"""
    requested: bool = False
    """trace: asked for by get_concrete_function, not made by a call"""


def events(function: Any = None, *, graphs: bool = False) -> list[Event]:
    """The latest 1,000 events of all Functions, or of one: traces, evictions, failures, warnings.

    Oldest first. Long texts are cut at 1,000 characters. Hits make no event: see `f.stats()`.

    Args:
        graphs: True: the latest 1,000 events of kernel tapes and CUDA graphs, instead of the others.

    Raises:
        TypeError: `function` is no Function.
    """
    function = getattr(function, "__func__", function)  # a method
    return [
        Event(**{name: anywhere(value) for name, value in fields.items()})
        for fields in _tracehost.events(function, graphs)
    ]


def latest_traces(count: int, function: Any = None) -> list[Event]:
    """The last `count` traces, oldest first; fewer if some are forgotten."""
    made = [event for event in events(function) if event.kind == "trace"]
    return made[max(0, len(made) - count) :]


def retraces(count: int) -> list[Event]:
    """The last `count` traces that calls made and that have a cause, oldest first; fewer if some are forgotten."""
    made = [
        event
        for event in events()
        if event.kind == "trace" and event.causes and not event.requested
    ]
    return made[max(0, len(made) - count) :]


def sums() -> dict[str, Any]:
    """Calls, hits, traces, retraces and the traces' milliseconds of all Functions."""
    rows = _tracehost.rows(0)
    return {name: sum(row[name] for row in rows) for name in (*_COUNTERS, "ms")}


def report() -> str:
    """The table of all Functions: calls, hits, traces, milliseconds spent in traces, main cause."""
    return table_in_cells(table.table())


def metrics_text() -> str:
    """The counters of all Functions in Prometheus' text format, to be served as `/metrics`.

    Calls by result, seconds of traces, retraces by cause, evictions and live graphs, each with the label
    `function`. `tracehost --metrics-file FILE` writes the same at exit.
    """
    return _tracehost.metrics()


def reset() -> None:
    """Forget counters' history, events and the retrace detectors. Caches stay."""
    _tracehost.reset()
    warning.reset()


_COUNTERS = ("calls", "hits", "traces", "retraces")
_last: dict[str, float] = {}


def since_last() -> str:
    """What happened since this was called before, as JSON: for the notebook runner, after each cell.

    A retrace is a trace that a call made and that has a cause. The first trace of a Function has none.
    """
    global _last
    now = sums()
    if any(now[name] < _last.get(name, 0) for name in _COUNTERS):  # reset() was called
        _last = {}
    found: dict[str, Any] = {name: now[name] - _last.get(name, 0) for name in _COUNTERS}
    found["trace_ms"] = round(now["ms"] - _last.get("ms", 0), 1)
    found["causes"] = [
        f"{e.function} ({e.definition}): {'; '.join(e.causes)}, at {e.call}"
        for e in retraces(found["retraces"])
    ]
    _last = now
    return json.dumps(found)
