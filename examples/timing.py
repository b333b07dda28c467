"""What a call costs, traced beside eager on the same machine: what the numbered examples share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import tracehost


class Row(NamedTuple):
    """One thing to compute, in two ways. Both are called before, so that all is traced."""

    name: str
    eager: Callable[..., Any]
    traced: Callable[..., Any]
    args: tuple[Any, ...]
    traces_ms: float = 0.0  # what its traces took: stats()["trace_ms"]


def pay_once() -> None:
    """Pays what the first trace of a process costs, and the first one with an unknown size or branch: torch then
    imports its fake tensors, about 1 to 2 s. Called before traces are timed."""
    any_size = [tracehost.TensorSpec([None])]
    tracehost.function(lambda x: x * 2, name="first", input_signature=any_size)(torch.ones(3))


def beside_eager(rows: list[Row], rounds: int = 40) -> None:
    """Prints a table: the median of a call in microseconds, and from which tenth to which ninth tenth it
    goes; then how many calls it takes until the traces are paid for.

    Eager and traced take turns, on one thread: what else the machine does meets both.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    print(f"  {'us a call':32}{'eager':>22}{'traced':>22}{'ratio':>7}  traces are paid after")
    for row in rows:
        eager, traced = _alternate(row, rounds)
        saved = statistics.median(eager) - statistics.median(traced)
        ratio = statistics.median(traced) / statistics.median(eager)
        after = f"{row.traces_ms * 1e3 / saved:,.0f} calls" if saved > 0 else "never"
        print(f"  {row.name:32}{_spread(eager):>22}{_spread(traced):>22}{ratio:7.2f}  {after}")
    torch.set_num_threads(threads)


def _alternate(row: Row, rounds: int) -> tuple[list[float], list[float]]:
    """Microseconds of a call, one figure for each round. A round is long enough for the clock."""
    took: tuple[list[float], list[float]] = [], []
    calls = max(1, min(200, round(1e-3 / _seconds(row.eager, row.args, 1))))
    for _ in range(rounds):
        for times, function in zip(took, (row.eager, row.traced)):
            times.append(_seconds(function, row.args, calls) / calls * 1e6)
    return took


def _seconds(function: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function(*args)
    return time.perf_counter() - start


def _spread(us: list[float]) -> str:
    ordered = sorted(us)
    low, middle, high = (ordered[int(len(ordered) * part)] for part in (0.1, 0.5, 0.9))
    return f"{middle:,.1f} ({low:,.1f}-{high:,.1f})"
