"""How things are timed and judged: interleaved repeats, the minimum of each, rows with a budget.

Times are CPU time of the thread, so that a machine that does other things too shows the same."""

from __future__ import annotations

import itertools
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Row:
    what: str
    measured: float
    unit: str  # "x", "ns", "MB" ...
    budget: float | None = None  # at most; None: only reported
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.budget is None:
            return ""
        return "OK" if self.measured <= self.budget else "over"


@dataclass
class Report:
    rows: list[Row] = field(default_factory=list)

    def add(
        self, what: str, measured: float, unit: str, budget: float | None = None, note: str = ""
    ):
        row = Row(what, measured, unit, budget, note)
        self.rows.append(row)
        print(f"  {line(row)}", flush=True)

    def over(self) -> list[Row]:
        return [row for row in self.rows if row.verdict == "over"]

    def save(self, file: Path, versions: dict[str, str]) -> None:
        rows = [asdict(row) | {"verdict": row.verdict} for row in self.rows]
        file.write_text(
            json.dumps({"machine": machine(), **versions, "rows": rows}, indent=1) + "\n"
        )


def number(value: float, unit: str) -> str:
    digits = {"x": 2, "ns": 1 if abs(value) < 100 else 0, "MB": 1, "ms": 2}.get(unit, 0)
    return f"{value:,.{digits}f} {unit}"


def line(row: Row) -> str:
    budget = "" if row.budget is None else f"<= {number(row.budget, row.unit)}"
    text = f"{row.what:<52} {budget:>16} {number(row.measured, row.unit):>16}  {row.verdict:<4}  {row.note}"
    return text.rstrip()


def header() -> str:
    return f"  {'':<52} {'budget':>16} {'measured':>16}"


def machine() -> str:
    """The CPU as the system names it, with the number of cores and how busy it is."""
    model = platform.machine()
    try:
        for entry in Path("/proc/cpuinfo").read_text().splitlines():
            if entry.startswith("model name"):
                model = entry.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def call_loop(function: Callable, args: tuple) -> Callable[[int], float]:
    """run(n): nanoseconds for each of n calls. The loop's own share is about 5 ns."""

    def run(n: int) -> float:
        clock = time.thread_time_ns
        start = clock()
        for _ in itertools.repeat(None, n):
            function(*args)
        return (clock() - start) / n

    return run


def sequence_loop(calls: list[tuple[Callable, tuple]]) -> Callable[[int], float]:
    """As call_loop, for a list of calls that is gone through again and again."""

    def run(n: int) -> float:
        rounds = max(1, n // len(calls))
        clock = time.thread_time_ns
        start = clock()
        for _ in itertools.repeat(None, rounds):
            for function, args in calls:
                function(*args)
        return (clock() - start) / (rounds * len(calls))

    return run


def best(rivals: dict[str, Callable[[int], float]], n: int, repeats: int) -> dict[str, float]:
    """The minimum of each rival over interleaved repeats: what disturbs one disturbs all, and the
    minimum is what the code costs when nothing else runs."""
    for run in rivals.values():
        run(max(3, n // 10))
    results = {name: float("inf") for name in rivals}
    for _ in range(repeats):
        for name, run in rivals.items():
            results[name] = min(results[name], run(n))
    return results


def slope(points: dict[int, float]) -> float:
    """Least squares: what one more costs."""
    count = len(points)
    mean_x, mean_y = sum(points) / count, sum(points.values()) / count
    above = sum((x - mean_x) * (y - mean_y) for x, y in points.items())
    return above / sum((x - mean_x) ** 2 for x in points)
