"""What a process writes of its Functions when it ends: at exit, and at SIGTERM where the program has no handler.

Problem: the figures are complete at the end alone, and a scheduler ends a job by SIGTERM. The options of the host are
variables here (`--events FILE` is TRACEHOST_EVENTS). Children inherit them, so the process that was started with an
option is named by TRACEHOST_EVENTS_PID; others write their events beside it, and nothing else.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable

from tracehost_lock import gate

from .. import _tracehost
from . import run
from .drawing import of_functions
from .monitor import counted
from .page import document
from .report import report
from .words.fixes import all_fixes
from .words.table import rows

_PROCESS = os.getpid()


def install() -> None:
    """Called once, at the end of the import.

    Raises:
        OSError: the file of `--events` cannot be written.
        ValueError: TRACEHOST_MAX_RETRACES is no whole number.
    """
    writers = [*_limit(), *_frozen(), *_events(), *_metrics(), *_report(), *_fixes()]
    if not writers:
        return
    one_at_a_time = threading.Lock()

    def write_all() -> None:
        if os.getpid() != _PROCESS:  # a forked child runs the handlers, too
            return
        with one_at_a_time:  # at exit and at SIGTERM: the second one waits for the files
            for write in writers:
                write()
            writers.clear()

    atexit.register(write_all)
    _tracehost.at_sigterm(write_all)


def _value(variable: str) -> str:
    """Of this process; empty: not set, or another process writes. Under plain python nobody has said whose it is."""
    value = os.environ.get(variable, "")
    if not value:
        return ""
    owner = os.environ.setdefault(f"{variable}_PID", str(_PROCESS))
    return value if owner == str(_PROCESS) else ""


def _file(variable: str) -> str:
    """The same for a path, which children may see from another folder."""
    value = _value(variable)
    if value not in ("", "-"):
        value = os.environ[variable] = os.path.abspath(value)
    return value


def _events() -> list[Callable[[], None]]:
    is_first = bool(_file("TRACEHOST_EVENTS"))
    path = os.environ.get("TRACEHOST_EVENTS")
    if not path:
        return []
    _tracehost.open_events(path, not is_first)
    if not is_first:
        return []
    _tracehost.write_event(run.line(run.start()))
    return [lambda: _tracehost.write_event(run.line(run.functions()))]


def _metrics() -> list[Callable[[], None]]:
    target = _file("TRACEHOST_METRICS_FILE")
    return [lambda: _write(target, "metrics file", _tracehost.metrics)] if target else []


def _report() -> list[Callable[[], None]]:
    target = _file("TRACEHOST_REPORT")
    if not target:
        return []
    started = time.time()  # before the program runs
    return [lambda: _write(target, "report", lambda: _text(target, started))]


def _fixes() -> list[Callable[[], None]]:
    """`tracehost fix` names a folder, where each process of the program has a file."""
    folder = os.environ.get("TRACEHOST_FIXES")
    if not folder:
        return []
    return [lambda: _write(os.path.join(folder, f"{_PROCESS}.json"), "fixes", all_fixes)]


def _text(target: str, started: float) -> str:
    """As the end of the file's name asks for."""
    if target.endswith((".json", ".html")):
        made = run.of_this_process(started)
        graphs = of_functions(made["functions"]) if target.endswith(".html") else {}
        return document(target, made, graphs)
    return report()


def _limit() -> list[Callable[[], None]]:
    text = _value("TRACEHOST_MAX_RETRACES")
    if not text:
        return []
    if not (text.isascii() and text.removeprefix("+").isdigit()):
        raise ValueError(f"TRACEHOST_MAX_RETRACES takes a whole number, got {text!r}")
    most = int(text)

    def check() -> None:
        count = _tracehost.totals()[1]
        if count > most:
            sys.stderr.write(_over(count, most))
            os.environ["TRACEHOST_OVER_LIMIT"] = str(_PROCESS)  # the host reads it: exit code 3

    return [check]


def _frozen() -> list[Callable[[], None]]:
    if not gate.is_closed():
        return []

    def check() -> None:
        found = gate.forbidden()
        if found:
            os.environ["TRACEHOST_OVER_LIMIT"] = str(_PROCESS)
        if len(found) > 1 or (found and not gate.shown_as_traceback(found[0])):
            sys.stderr.write(gate.listed(found))

    return [check]


def _over(count: int, most: int) -> str:
    lines = [f"tracehost: {counted(count, 'retrace')}, {most} allowed (--max-retraces)"]
    for row in sorted(rows(advised=True), key=lambda row: -row["retraces"]):
        if row["retraces"]:
            lines.append(f"{row['function']}: {row['retraces']}{row['advice']}")
    return "\n".join(lines) + "\n"


def _write(target: str, what: str, text: Callable[[], str]) -> None:
    """No fault here fails the program, or keeps another file from being written."""
    try:
        made = text().encode("utf-8", "backslashreplace")
        if target == "-":
            sys.stderr.write(made.decode())
            return
        with open(target, "wb") as file:
            file.write(made)
    except OSError as error:
        sys.stderr.write(f"tracehost: the {what} can't be written to {target}: {error.strerror}\n")
    except ImportError as error:
        sys.stderr.write(
            f"tracehost: the {what} {target} needs Jinja2, which can't be imported: {error}\n"
        )
    except Exception as error:
        sys.stderr.write(
            f"tracehost: the {what} {target} can't be made: {type(error).__name__}: {error}\n"
        )
