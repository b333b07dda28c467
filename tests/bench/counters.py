"""Numbers that objects hold: a counter that each call reads and stores, and two graphs that serve in turn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace

import torch
import tracehost
from harness import Report

CALLS = 500


def counting(every: int) -> Callable:
    """Each `every`th call takes the other side of an `if`."""
    thing = SimpleNamespace(n=0)

    @tracehost.function
    def f(x):
        thing.n += 1
        if thing.n % every == 0:
            return x * 2
        return x * 3

    return f


def plain() -> Callable:
    return tracehost.function(lambda x: x * 2)


def microseconds(functions: dict[str, Callable], repeats: int) -> dict[str, float]:
    """Of a call, all in turn, the fastest of each."""
    x = torch.ones(4)
    results = dict.fromkeys(functions, float("inf"))
    for f in functions.values():
        for _ in range(8):
            f(x)
    for _ in range(repeats):
        for name, f in functions.items():
            start = time.thread_time_ns()
            for _ in range(CALLS):
                f(x)
            results[name] = min(results[name], (time.thread_time_ns() - start) / CALLS / 1e3)
    return results


def run(report: Report, repeats: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", tracehost.RetraceWarning)
    us = microseconds({"none": plain(), "one": counting(1), "in turn": counting(2)}, repeats)
    report.add("a hit that counts", us["one"], "us")
    report.add("  / the same graph without a counter", us["one"] / us["none"], "x")
    report.add("  two graphs in turn / one of them", us["in turn"] / us["one"], "x", 1.5)
