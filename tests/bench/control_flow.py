"""Control flow in graphs: what staging adds to a trace, and what a staged loop costs when it runs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import tracehost
from harness import Report, best

TRIPS = 10_000
PIECES = 20

FIRST = """
import time, torch, tracehost
{warm}
def f(x):
    if x.sum() > 0:
        x = x * 2
    return x
x = torch.ones(4)
start = time.perf_counter()
tracehost.function(f)(x)
print(time.perf_counter() - start)
"""


def first_ms(warm: str) -> float:
    """Of a staged trace in a process of its own, in which `warm` has run before."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "first.py")
        program.write_text(FIRST.format(warm=warm), encoding="utf-8")
        command = [sys.executable, str(program)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return 1e3 * float(done.stdout)


def plain(x, n):
    for _ in range(PIECES):
        x = x * 0.9 + 0.1
        x = torch.where(x.sum() > 1, x - 1, x + 1)
    return x


def with_ifs(x, n):
    for _ in range(PIECES):
        x = x * 0.9 + 0.1
        if x.sum() > 1:
            x = x - 1
        else:
            x = x + 1
    return x


def with_whiles(x, n):
    for _ in range(PIECES):
        x = x * 0.9 + 0.1
        while x.sum() > 1:
            x = x - 1
    return x


def with_fors(x, n):
    for _ in range(PIECES):
        x = x * 0.9 + 0.1
        for _i in range(n):
            x = x - 1
    return x


def trace_ns(function: Callable) -> Callable[[int], float]:
    x, n = torch.ones(4), torch.tensor(1)

    def run(times: int) -> float:
        total = 0
        for _ in range(times):
            traced = tracehost.function(function)
            start = time.thread_time_ns()
            traced(x, n)
            total += time.thread_time_ns() - start
        return total / times

    return run


def long_for(x, n):
    for _ in range(n):
        x = x * 0.999 + 0.001
    return x


def long_while(x, n):
    i = 0
    while i < n:
        x = x * 0.999 + 0.001
        i += 1
    return x


def long_branches(x, n):
    for _ in range(n):
        if x.sum() > 1:
            x = x * 0.999
        else:
            x = x + 0.001
    return x


def loop_ns(function: Callable) -> Callable[[int], float]:
    x, n = torch.ones(4), torch.tensor(TRIPS)
    function(x, n)

    def run(_: int) -> float:
        start = time.thread_time_ns()
        function(x, n)
        return time.thread_time_ns() - start

    return run


def run(report: Report, repeats: int) -> None:
    report.add("first staged trace in a process", first_ms(""), "ms")
    warm = "tracehost.function(lambda x: x * 2)(torch.ones(4))"
    report.add("  the same after a plain trace", first_ms(warm), "ms")

    rivals = {f.__name__: trace_ns(f) for f in (plain, with_ifs, with_whiles, with_fors)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.RetraceWarning)
        ns = best(rivals, 3, max(1, repeats // 4))
    each = {name: (ns[name] - ns["plain"]) / PIECES / 1e6 for name in ns}
    report.add("an if in a trace, more than torch.where", each["with_ifs"], "ms")
    report.add("a while in a trace, more than torch.where", each["with_whiles"], "ms")
    report.add("a for over range(n), more than torch.where", each["with_fors"], "ms")

    for function, what in (
        (long_for, "for i in range(n), two ops"),
        (long_while, "while i < n, two ops"),
        (long_branches, "for with an if"),
    ):
        rivals = {"eager": loop_ns(function), "staged": loop_ns(tracehost.function(function))}
        ns = best(rivals, 1, max(1, repeats // 4))
        name = f"{TRIPS:,} trips, staged / eager: {what}"
        budget = None if function is long_branches else 0.6
        report.add(name, ns["staged"] / ns["eager"], "x", budget, f"{ns['staged'] / 1e6:.1f} ms")
