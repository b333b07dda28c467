"""Runs one pattern before and after its cure, and prints what it cost: what all files of this folder share."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import tracehost


class Program(NamedTuple):
    """One way to write it: the Functions it uses (calls may add to the list), and its calls in order."""

    functions: list[Any]
    calls: Sequence[Callable[[], Any]]


class Cost(NamedTuple):
    traces: int
    ms: float  # all calls together
    kib: float  # heap that is in use afterwards, more than before
    p99_us: float  # of a call once all is traced


class _Heap(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("a", "b", "c", "d", "mapped", "f", "g", "used", "i", "j")
    ]


def _heap_bytes() -> int:
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Heap
    found = mallinfo()
    return found.used + found.mapped


def _run(program: Program) -> tuple[Cost, list[Any], list[str]]:
    start_bytes = _heap_bytes()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", tracehost.RetraceWarning)
        start = time.perf_counter()
        results = [call() for call in program.calls]
        ms = (time.perf_counter() - start) * 1e3
        traces = sum(f.tracing_count() for f in program.functions)
        kib = (_heap_bytes() - start_bytes) / 1024
        again = []
        for _ in range(-(-200 // len(program.calls))):
            for call in program.calls:
                start = time.perf_counter()
                call()
                again.append((time.perf_counter() - start) * 1e6)
    p99 = sorted(again)[int(len(again) * 0.99)]
    texts = [str(w.message) for w in told if issubclass(w.category, tracehost.RetraceWarning)]
    return Cost(traces, ms, kib, p99), results, texts


def compare(title: str, before: Program, after: Program, *, traces: tuple[int, int]) -> None:
    """Runs both, asserts the numbers of traces and that the results are equal, prints a table.

    For `run.py`: with --json one line in place of the table; with --first before or --first after only the
    milliseconds of that one, as the first that the process traces.
    """
    torch.set_num_threads(1)
    if "--first" in sys.argv:
        print(first_ms(before if sys.argv[-1] == "before" else after))
        sys.exit()
    # What a process pays once belongs to neither: its first traces.
    any_size = [tracehost.TensorSpec([None])]
    tracehost.function(lambda x: x * 2, name="warm up", input_signature=any_size)(torch.ones(3))
    cost_before, results_before, told = _run(before)
    cost_after, results_after, told_after = _run(after)
    assert (cost_before.traces, cost_after.traces) == traces, (
        cost_before.traces,
        cost_after.traces,
    )
    torch.testing.assert_close(results_after, results_before)
    assert not told_after, told_after[0]
    if "--json" in sys.argv:
        print(json.dumps({"title": title, "before": cost_before, "after": cost_after}))
        return
    print(title)
    print(table([("before", cost_before), ("after", cost_after)]))
    for line in told[0].splitlines() if told else []:
        print("  what tracehost says before: " + line.strip())


def first_ms(program: Program) -> float:
    """Of all calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.RetraceWarning)
        start = time.perf_counter()
        for call in program.calls:
            call()
        return (time.perf_counter() - start) * 1e3


def table(rows: list[tuple[str, Cost]]) -> str:
    lines = [f"  {'':8}{'calls traced':>14}{'ms':>10}{'heap KiB':>10}{'p99 us':>10}"]
    lines += [
        f"  {name:8}{cost.traces:14d}{cost.ms:10.2f}{cost.kib:10.0f}{cost.p99_us:10.1f}"
        for name, cost in rows
    ]
    return "\n".join(lines)
