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


def checked() -> Callable:
    """The graph checks a number behind 20 matrix products; half of the inputs have the other one."""
    weight = torch.eye(32)

    @tracehost.function(autograph=False)
    def f(x):
        for _ in range(20):
            x = torch.tanh(x @ weight)
        return {True: x, False: -x}[bool(x.sum() > 0)]

    return f


def plain() -> Callable:
    return tracehost.function(lambda x: x * 2)


def microseconds(
    functions: dict[str, Callable], inputs: list[torch.Tensor], repeats: int
) -> dict[str, float]:
    """Of a call with each of the inputs in turn, the fastest."""
    results = dict.fromkeys(functions, float("inf"))
    for f in functions.values():
        for _ in range(8):
            for x in inputs:
                f(x)
    for _ in range(repeats):
        for name, f in functions.items():
            start = time.thread_time_ns()
            for _ in range(CALLS // len(inputs)):
                for x in inputs:
                    f(x)
            results[name] = min(results[name], (time.thread_time_ns() - start) / CALLS / 1e3)
    return results


def run(report: Report, repeats: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", tracehost.RetraceWarning)
    x = torch.ones(4)
    us = microseconds({"none": plain(), "one": counting(1), "in turn": counting(2)}, [x], repeats)
    report.add("a hit that counts", us["one"], "us")
    report.add("  / the same graph without a counter", us["one"] / us["none"], "x")
    report.add("  two graphs in turn / one of them", us["in turn"] / us["one"], "x", 1.5)
    f, x = checked(), torch.rand(32, 32)
    f(x), f(-x)
    one = max(microseconds({"": f}, given, repeats)[""] for given in ([x, x], [-x, -x]))
    report.add("a hit with a check behind 40 ops", one, "us")
    in_turn = microseconds({"": f}, [x, -x], repeats)[""]
    # Each call runs the start of the graph that served last, then the other graph.
    report.add("  two graphs in turn / one of them", in_turn / one, "x", 2.2)
