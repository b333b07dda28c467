"""The table of all Functions.

    function            calls  hits  traces  inlined  live  hit rate  trace ms  main cause
    step (train.py:12)    100    95       5        0     5    95.0 %      41.2  'lr' value
    total                 100    95       5        0     5    95.0 %      41.2

A line behind it counts the validations of graphs, if one graph was wrong, and one the CUDA graphs, if there were any.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ... import _tracehost
from .causes import brief, causes_of
from .records import account
from .warning import MOST_IN_SUMMARY, causes_and_fixes

Row = dict[str, Any]

_HEADER = (
    "function",
    "calls",
    "hits",
    "traces",
    "inlined",
    "live",
    "hit rate",
    "trace ms",
    "main cause",
)


# What the table alone shows.
_OF_TABLE = (
    "archive",
    "validated",
    "unvalidated",
    "captured",
    "uncaptured",
    "dropped",
    "device_bytes",
)


def rows(advised: bool = False) -> list[Row]:
    """What the Functions of each definition did, with the main cause of their traces. `advised`: with the causes and
    fixes of the latest traces."""
    made = [_worded(row, advised) for row in _tracehost.rows(2 if advised else 1)]
    return [{name: row[name] for name in row if name not in _OF_TABLE} for row in made]


def _worded(row: Row, advised: bool) -> Row:
    known = account(row.pop("account"))
    found = causes_of(known.records)
    row["cause"] = brief(found[0]) if found else ""
    row["advice"] = causes_and_fixes(known, set(), MOST_IN_SUMMARY) if advised and found else ""
    return row


def table() -> str:
    """Aligned plain text with a header and a total, costliest first; ends with a newline."""
    rows = [_worded(row, False) for row in _tracehost.rows(1)]
    if not rows:
        return "tracehost: no Function was called.\n"
    rows = sorted(rows, key=lambda row: (-row["ms"], -row["calls"]))
    named = Counter(row["function"] for row in rows)
    total: Row = {
        name: sum(row[name] for row in rows) for name, value in rows[0].items() if _is_count(value)
    }
    lines = [
        _HEADER,
        *(_cells(row, named) for row in rows),
        _cells({**total, "function": "total", "archive": "", "cause": ""}, named),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(_line(cells, widths) for cells in lines) + _validation(total) + _cuda(total)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float)


def _cells(row: Row, named: Counter[str]) -> tuple[str, ...]:
    function = row["function"]
    if row["archive"] and named[function] > 1:
        function = f"{function[:-1]} {row['archive']})"
    rate = f"{100 * row['hits'] / row['calls']:.1f} %" if row["calls"] else "-"
    counts = [str(row[name]) for name in ("calls", "hits", "traces", "inlined", "live")]
    return (function, *counts, rate, f"{row['ms']:.1f}", row["cause"])


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *others = cells
    middle = [text.rjust(width) for text, width in zip(others[:-1], widths[1:], strict=False)]
    return "  ".join([first.ljust(widths[0]), *middle, others[-1]]).rstrip() + "\n"


def _validation(total: Row) -> str:
    if not total["mismatches"]:
        return ""
    return (
        f"validation: {total['validated']} checked, {total['unvalidated']} not checked, "
        f"{total['mismatches']} wrong\n"
    )


def _cuda(total: Row) -> str:
    if not total["captured"] and not total["uncaptured"]:
        return ""
    return (
        f"CUDA graphs: {total['captured']} captured, {total['uncaptured']} not captured, "
        f"{total['dropped']} dropped, {total['device_bytes'] / 2**20:.1f} MiB of device memory\n"
    )
