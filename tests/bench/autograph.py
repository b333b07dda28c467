"""Autograph's front end: converting a function, and what converted code does for each call it makes."""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable

import torch
from harness import Report
from tracehost.autograph.conversion import compile as compiler
from tracehost.autograph.run.calls import call


def long_function(pieces: int) -> Callable:
    """Eight lines a piece, an if among them."""
    lines = ["def f(x, n, layers, scale=1.0):", "    h = x", "    out = []"]
    for i in range(pieces):
        lines += [
            f"    a{i} = layers[{i % 3}](h) * scale + {i}",
            f"    b{i} = torch.exp(a{i}).sum() + h.mean()",
            f"    if b{i} > {i}:",
            f"        h = h + a{i} * 2",
            "    else:",
            f"        h = h - a{i}",
            "    out.append(h)",
            "    h = h.view(-1, n).transpose(0, 1)",
        ]
    source = "\n".join([*lines, "    return h", ""])
    name = f"<bench {pieces}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict = {"__name__": "bench", "torch": torch}
    exec(compile(source, name, "exec"), space)
    return space["f"]


def conversion_ms(function: Callable, repeats: int) -> float:
    best = float("inf")
    for _ in range(5 * repeats):
        start = time.thread_time()
        made = compiler._convert(function)
        best = min(best, time.thread_time() - start)
        assert made.code is not None, made.reason
    return 1000 * best


def call_ns(f: object, repeats: int, n: int = 20000) -> float:
    best = float("inf")
    for _ in range(5 * repeats):
        start = time.thread_time()
        for _ in range(n):
            call(f)
        best = min(best, time.thread_time() - start)
    return 1e9 * best / n


def users_own(x):
    return x


def run(report: Report, repeats: int) -> None:
    short, long = (conversion_ms(long_function(p), repeats) for p in (37, 148))
    report.add("conversion of a function of 300 lines", short, "ms", 20)
    report.add("conversion: 1200 lines / 4 x 300 lines", long / (4 * short), "x", 1.5)
    report.add("callee: a torch function", call_ns(torch.exp, repeats), "ns", 1000)
    report.add("callee: a builtin", call_ns(len, repeats), "ns", 1000)
    report.add("callee: a module", call_ns(torch.nn.Linear(1, 1), repeats), "ns", 1000)
    report.add("callee: the user's function", call_ns(users_own, repeats), "ns", 3500)
