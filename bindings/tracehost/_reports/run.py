"""All that a run did, as data: what `--report=run.json` writes and what a page is made of.

A run is a dict (docs/operations/run.schema.json):

    version, program, pid, started, ended      the process; `ended` is None where it was killed
    functions                                  a dict for each definition site, costliest first
    events                                     as in a file of `--events`, oldest first
    earlier                                    how many traces are left out of `events`

It comes from the process itself, or from the lines of `--events`: a line "start", the events, and a line "functions"
at the end. Where that line is missing, the process was killed: the traces are counted from the events, and the calls
and hits are not known (None).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from .. import _tracehost
from .words.table import rows

VERSION = 1

Run = dict[str, Any]


def line(record: dict[str, Any]) -> str:
    """A record as a line of the events file, without a newline."""
    stamp = {"version": VERSION, "time": time.time(), "pid": os.getpid()}
    made = json.dumps({**stamp, **record}, ensure_ascii=False, separators=(",", ":"))
    return made.encode("utf-8", "backslashreplace").decode()  # an argument may be no text


def start() -> dict[str, Any]:
    """What the first line says of the process."""
    return {"event": "start", "program": list(sys.argv), "python": sys.version.split()[0]}


def functions() -> dict[str, Any]:
    """What the last line says of the Functions."""
    return {"event": "functions", "functions": rows(advised=True)}


def of_this_process(started: float) -> Run:
    events = [json.loads(made) for made in _tracehost.event_lines()]
    made = rows(advised=True)
    kept = sum(event["event"] == "trace" for event in events)
    return {
        "version": VERSION,
        "program": list(sys.argv),
        "pid": os.getpid(),
        "started": started,
        "ended": time.time(),
        "functions": _by_cost(made),
        "events": events,
        "earlier": max(0, sum(row["traces"] for row in made) - kept),
    }


def of_lines(lines: Iterable[str]) -> Run:
    """Of a file of `--events`. A line that was not written whole, as the disk was full, is left out.

    Raises:
        ValueError: the number of the line, and what is wrong with it.
    """
    records = []
    for number, one in enumerate(lines, 1):
        try:
            record = json.loads(one)
        except ValueError:
            if one.startswith('{"version":'):
                continue
            raise ValueError(f"line {number} is not JSON: {one[:60]!r}") from None
        if isinstance(record, dict) and record.get("version", VERSION) != VERSION:
            raise ValueError(f"line {number} has version {record['version']!r}, not {VERSION}")
        if not _is_event(record):
            raise ValueError(f"line {number} is no event: {one[:60]!r}")
        records.append(record)
    return _of_records(records)


def _is_event(record: Any) -> bool:
    """Whether it has what is read of each event here."""
    kind = record.get("event") if isinstance(record, dict) else None
    of_function = {"function", "site", "definition"}
    needs = {"start": {"program"}, "functions": {"functions"}}.get(str(kind), of_function)
    if kind == "trace":
        needs = of_function | {"call", "signature", "causes", "ms", "ops", "requested"}
    return kind is not None and needs | {"time", "pid", "version"} <= record.keys()


def _of_records(records: list[dict[str, Any]]) -> Run:
    first = next((one for one in records if one["event"] == "start"), {})
    last = next((one for one in reversed(records) if one["event"] == "functions"), None)
    events = [one for one in records if one["event"] not in ("start", "functions")]
    times = [one["time"] for one in records]
    return {
        "version": VERSION,
        "program": first.get("program", []),
        "pid": records[0]["pid"] if records else None,
        "started": first.get("time", times[0] if times else None),
        "ended": last["time"] if last else None,
        "functions": _by_cost(_rows(events, last["functions"] if last else None)),
        "events": events,
        "earlier": 0,
    }


def _rows(events: list[dict[str, Any]], known: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Those of the end, and of Functions that were forgotten by then: their sum is in a row without a site."""
    counted = _counted(events)
    if known is None:
        return counted
    sites = {row["site"] for row in known}
    return [row for row in known if row["site"]] + [
        row for row in counted if row["site"] not in sites
    ]


def _counted(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of Functions, as far as their events say."""
    rows: dict[int, dict[str, Any]] = {}
    for event in events:
        row = rows.setdefault(event["site"], _empty_row(event))
        if event["event"] == "trace":
            row["traces"] += 1
            row["ms"] += event["ms"]
            if event["causes"] and not event["requested"]:
                row["retraces"] += 1
                row["cause"] = "; ".join(event["causes"])
        row["failures"] += event["event"] == "fail"
    return list(rows.values())


def _empty_row(event: dict[str, Any]) -> dict[str, Any]:
    place = event["definition"]
    name = f"{event['function']} ({place['text'] if place else '?'})"
    unknown = dict.fromkeys(("calls", "hits", "inlined", "live", "eager", "rejected"))
    known = {"traces": 0, "retraces": 0, "failures": 0, "mismatches": 0, "ms": 0.0}
    texts = {"function": name, "qualified": "", "cause": "", "advice": ""}
    return {**texts, "site": event["site"], "definition": place, **unknown, **known}


def _by_cost(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-row["ms"], -(row["calls"] or 0)))
