"""What tracehost bench measured, as a table, as JSON, and judged."""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
from dataclasses import dataclass
from typing import Any

import torch
import tracehost

from .timing import Contender

SCHEMA = "tracehost.bench/1"
EAGER, OURS = "eager", "tracehost"


@dataclass
class Case:
    """One signature of the function, measured."""

    title: str
    contenders: list[Contender]

    def of(self, name: str) -> Contender | None:
        return next((c for c in self.contenders if c.name == name), None)


def as_text(cases: list[Case]) -> str:
    return _headline(cases) + "".join(f"\n{case.title}\n{_table(case)}" for case in cases)


def _headline(cases: list[Case]) -> str:
    rounds = {len(c.samples) for case in cases for c in case.contenders if c.failure is None}
    turns = " to ".join(str(n) for n in sorted({min(rounds), max(rounds)})) if rounds else "no"
    turns += " round" if turns == "1" else " rounds"
    threads = torch.get_num_threads()
    return (
        f"tracehost {tracehost.__version__}, torch {torch.__version__}, "
        f"{threads} thread{'' if threads == 1 else 's'} on {os.cpu_count()} cores, {turns} in turns\n"
    )


_COLUMNS = ("", "p10", "median", "p90", "of eager", "first call", "pays back")


def _table(case: Case) -> str:
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for contender in case.contenders:
        if contender.failure is not None:
            rows.append((contender.name, f"failed: {_reason(contender.failure)}"))
            continue
        ratio, pays_back = _ratio(case, contender), _pays_back(case, contender)
        times = (contender.quantile(10), contender.median, contender.quantile(90))
        rows.append(
            (
                contender.name,
                *map(_time, times),
                "" if ratio is None else f"{ratio:.2f}",
                _time(contender.first_ns),
                "" if pays_back is None else _verdict(case, contender, pays_back),
            )
        )
    whole = [row for row in rows if len(row) == len(_COLUMNS)]
    first = max(len(row[0]) for row in rows)
    widths = [first] + [max(len(row[i]) for row in whole) for i in range(1, len(_COLUMNS))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(first), *(t.rjust(w) for t, w in zip(row[1:], widths[1:]))]
        cells = cells if len(row) == len(_COLUMNS) else [row[0].ljust(first), row[1]]
        lines.append("  " + "  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def _time(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{ns / size:.2f} {unit}"
    return f"{ns / 1e3:.2f} us"


def _verdict(case: Case, contender: Contender, calls: float) -> str:
    if _is_noisy(case, contender, 1):
        return "too noisy to say"
    return "never" if math.isinf(calls) else f"at call {calls:,.0f}"


def _reason(error: Exception) -> str:
    text = next((line for line in str(error).splitlines() if line.strip()), "").strip()
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return reason if len(reason) <= 140 else reason[:139] + "…"


def _ratios(case: Case, contender: Contender) -> list[float]:
    """Of eager's time, round by round: what disturbs the machine for longer disturbs both in one round."""
    eager = case.of(EAGER)
    if eager is None or contender.failure is not None:
        return []
    return [ours / max(theirs, 1e-9) for ours, theirs in zip(contender.samples, eager.samples)]


def _ratio(case: Case, contender: Contender) -> float | None:
    ratios = _ratios(case, contender)
    return statistics.median(ratios) if ratios else None


def _is_noisy(case: Case, contender: Contender, bound: float) -> bool:
    """Whether a quarter of the rounds are below the bound, and a quarter above."""
    ratios = _ratios(case, contender)
    if len(ratios) < 2:
        return False
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return low < bound < high


def _pays_back(case: Case, contender: Contender) -> float | None:
    """The number of calls that together, the first included, take less time than as many of eager's."""
    eager, ratio = case.of(EAGER), _ratio(case, contender)
    if eager is None or contender is eager or ratio is None:
        return None
    saved = eager.median * (1 - ratio)
    if saved <= 0:
        return math.inf
    return max(1, math.ceil((contender.first_ns - eager.median * ratio) / saved))


def as_json(name: str, cases: list[Case]) -> str:
    document = {
        "schema": SCHEMA,
        "function": name,
        "tracehost": tracehost.__version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "signatures": [
            {"signature": case.title, "rows": [_row(case, c) for c in case.contenders]}
            for case in cases
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _row(case: Case, contender: Contender) -> dict[str, Any]:
    if contender.failure is not None:
        return {"name": contender.name, "failure": _reason(contender.failure)}
    pays_back = _pays_back(case, contender)
    return {
        "name": contender.name,
        "rounds": len(contender.samples),
        "p10_ns": contender.quantile(10),
        "median_ns": contender.median,
        "p90_ns": contender.quantile(90),
        "of_eager": _ratio(case, contender),
        "noisy": _is_noisy(case, contender, 1),
        "first_call_ns": contender.first_ns,
        "pays_back_calls": None if pays_back is None or math.isinf(pays_back) else pays_back,
    }


def untraced(cases: list[Case]) -> str | None:
    """Why the function could not be called, where it could not."""
    for case in cases:
        ours = case.of(OURS)
        if ours is not None and ours.failure is not None:
            return f"{case.title}: {ours.failure}"
    return None


def slower(cases: list[Case], percent: float) -> str:
    """A line for each signature that takes more of eager's time than allowed, in three of four rounds at least."""
    allowed, lines = 1 + percent / 100, ""
    for case in cases:
        ours = case.of(OURS)
        ratio = None if ours is None else _ratio(case, ours)
        if ours is not None and _is_noisy(case, ours, allowed):
            sys.stderr.write(
                f"tracehost: {case.title}: too noisy to say whether it takes {allowed:.2f} times eager's time; "
                "raise --repeat, or run it on a quiet machine\n"
            )
        elif ratio is not None and ratio > allowed:
            lines += (
                f"tracehost: {case.title}: {ratio:.2f} times eager's time, {allowed:.2f} allowed "
                "(--max-regress)\n"
            )
    return lines
