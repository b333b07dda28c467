"""What tracehost bench measured, as a table, as JSON, and judged."""

from __future__ import annotations

import math
import os
import sys
from typing import Any, NamedTuple

import torch
import tracehost

from .timing import EAGER, OURS, Contender, quantile

_COLUMNS = ["", "p10", "median", "p90", "of eager", "first call", "pays back"]


class Case(NamedTuple):
    """One signature of the function, measured."""

    title: str
    contenders: list[Contender]

    def ratios(self, name: str) -> list[float]:
        """Of eager's time, round by round: what disturbs the machine for longer disturbs both in one round."""
        samples = {c.name: c.samples for c in self.contenders if c.failure is None}
        pairs = zip(samples.get(name, []), samples.get(EAGER, []))
        return [ours / max(theirs, 1e-9) for ours, theirs in pairs]

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(contender) for contender in self.contenders]

    def _row(self, contender: Contender) -> dict[str, Any]:
        name, samples, ratios = contender.name, contender.samples, self.ratios(contender.name)
        if contender.failure is not None:
            return {"name": name, "failure": _reason(contender.failure)}
        p10, median, p90 = (quantile(samples, percent) for percent in (10, 50, 90))
        ratio = quantile(ratios, 50) if ratios else None
        times = {"p10_ns": p10, "median_ns": median, "p90_ns": p90, "first_call_ns": contender.first_ns}  # fmt: skip
        calls = None
        if ratio and ratio < 1:  # calls that together, the first included, take less than eager's
            eager = next(quantile(c.samples, 50) for c in self.contenders if c.name == EAGER)
            saved = eager * (1 - ratio)
            calls = max(1, math.ceil((contender.first_ns - eager * ratio) / saved))
        return {"name": name, "rounds": len(samples), "of_eager": ratio, "noisy": is_noisy(ratios, 1),
                "pays_back_calls": calls, **times}  # fmt: skip


def is_noisy(ratios: list[float], bound: float) -> bool:
    """Whether a quarter of the rounds are below the bound, and a quarter above."""
    return bool(ratios) and quantile(ratios, 25) < bound < quantile(ratios, 75)


def as_text(cases: list[Case]) -> str:
    counts = {len(c.samples) for case in cases for c in case.contenders if c.failure is None}
    turns = " to ".join(str(n) for n in sorted({min(counts), max(counts)})) if counts else "no"
    threads = torch.get_num_threads()
    text = (
        f"tracehost {tracehost.__version__}, torch {torch.__version__}, {threads} thread{'s'[: threads - 1]} "
        f"on {os.cpu_count()} cores, {turns} round{'' if turns == '1' else 's'} in turns\n"
    )
    for title, rows in ((case.title, case.rows()) for case in cases):
        table = [_COLUMNS, *map(_cells, rows)]
        widths = [max(map(len, column)) for column in zip(*(row for row in table if len(row) > 2))]
        first = max(len(row[0]) for row in table)
        text += f"\n{title}\n"
        for name, *cells in table:
            if len(cells) > 1:
                cells = [cell.rjust(width) for cell, width in zip(cells, widths[1:])]
            text += "  " + "  ".join([name.ljust(first), *cells]).rstrip() + "\n"
    return text


def _cells(row: dict[str, Any]) -> list[str]:
    if "failure" in row:
        return [row["name"], f"failed: {row['failure']}"]
    ratio, calls, verdict = row["of_eager"], row["pays_back_calls"], ""
    if ratio is not None and row["name"] != EAGER:
        pays_back = "never" if calls is None else f"at call {calls:,.0f}"
        verdict = "too noisy to say" if row["noisy"] else pays_back
    p10, median, p90, first = (_time(value) for name, value in row.items() if name.endswith("_ns"))
    return [row["name"], p10, median, p90, "" if ratio is None else f"{ratio:.2f}", first, verdict]


def _time(ns: float) -> str:
    size, unit = (1e9, "s") if ns >= 1e9 else (1e6, "ms") if ns >= 1e6 else (1e3, "us")
    return f"{ns / size:.2f} {unit}"


def _reason(error: Exception) -> str:
    text = next((line for line in str(error).splitlines() if line.strip()), "").strip()
    reason = f"{type(error).__name__}: {text}".removesuffix(": ")
    return reason if len(reason) <= 140 else reason[:139] + "…"


def slower(cases: list[Case], percent: float) -> str:
    """A line for each signature that takes more of eager's time than allowed, in three of four rounds at least."""
    allowed, lines = 1 + percent / 100, ""
    for title, ratios in ((case.title, case.ratios(OURS)) for case in cases):
        if is_noisy(ratios, allowed):
            sys.stderr.write(
                f"tracehost: {title}: too noisy to say whether it takes {allowed:.2f} times eager's time; "
                "raise --repeat, or run it on a quiet machine\n"
            )
        elif ratios and quantile(ratios, 50) > allowed:
            lines += f"tracehost: {title}: {quantile(ratios, 50):.2f} times eager's time, {allowed:.2f} allowed (--max-regress)\n"
    return lines
