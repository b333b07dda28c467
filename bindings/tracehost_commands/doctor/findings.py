"""What checks of `tracehost doctor` find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

REPAIR = "run scripts/setup or pip install again"


class Finding(NamedTuple):
    verdict: str
    """OK, WARN or FAIL"""
    what: str
    fix: str = ""


Findings = Iterator[Finding]


def ok(what: str) -> Finding:
    return Finding("OK", what)


def warn(what: str, fix: str) -> Finding:
    return Finding("WARN", what, fix)


def fail(what: str, fix: str = REPAIR) -> Finding:
    return Finding("FAIL", what, fix)


def run(checks: Iterable[Callable[[], Findings]]) -> Findings:
    for check in checks:
        try:
            yield from check()
        except Exception as error:  # a check that fails is no reason to leave the others out
            yield fail(f"{check.__name__.strip('_').replace('_', ' ')}: {one_line(error)}")


def one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
