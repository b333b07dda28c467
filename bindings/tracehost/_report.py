"""The report table, on request and at exit (`tracehost --report`)."""

from __future__ import annotations

import atexit
import os
import sys

from . import _tracehost


def report() -> str:
    """The table of all Functions: calls, hits, traces, milliseconds spent in traces, main cause."""
    return _tracehost.report_table()


def reset() -> None:
    """Forget counters' history, events and the retrace detectors. Caches stay."""
    _tracehost.reset()


def _write(target: str) -> None:
    table = report()
    if target == "-":
        sys.stderr.write(table)
        return
    try:
        with open(target, "w", encoding="utf-8") as file:
            file.write(table)
    except OSError as error:
        sys.stderr.write(f"tracehost: the report can't be written to {target}: {error.strerror}\n")


# Only the process that was started with --report prints; its children inherit the variables.
_target = os.environ.get("TRACEHOST_REPORT")
if _target and os.environ.get("TRACEHOST_REPORT_PID", str(os.getpid())) == str(os.getpid()):
    atexit.register(_write, _target)
