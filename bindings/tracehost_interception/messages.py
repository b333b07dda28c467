"""What the user reads: lines on stderr, each once, from the first process only."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable

FIRST = "TRACEHOST_INTERCEPTION_PID"

_said: set[str] = set()
_reported: set[tuple[str, str]] = set()  # (decorator, option)


def is_first() -> bool:
    """Whether this is the process that was asked to intercept, and none of its children."""
    return os.environ.get(FIRST) in (None, str(os.getpid()))


def say(line: str) -> None:
    if line in _said or not is_first():
        return
    _said.add(line)
    if sys.stderr is not None:
        sys.stderr.write(f"tracehost: {line}\n")
        sys.stderr.flush()


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """`; did you mean 'forward'?`, or nothing. `before`: what stands before the name where it is written."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean '{before}{near[0]}'?" if near else ""


def report_meaningless(what: str, where: str, options: Iterable[str]) -> None:
    """Options of the decorator that say nothing to tracehost: each is named once."""
    new = [option for option in options if (what, option) not in _reported]
    _reported.update((what, option) for option in new)
    if new:
        verb = "has" if len(new) == 1 else "have"
        say(
            f"{what} at {where}: {', '.join(new)} {verb} no meaning for tracehost, and {'is' if len(new) == 1 else 'are'} left out"
        )
