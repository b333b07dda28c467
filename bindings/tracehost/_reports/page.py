"""A run as one page: `tracehost --report=run.html`, `tracehost report run.jsonl`.

The page is one file without scripts, and without links to others. It shows the Functions by cost. Of each it shows the causes and fixes,
the traces on a line of time, and the source with the lines marked that traced again. All texts are escaped by Jinja2.
"""

from __future__ import annotations

import json
import linecache
import os
from collections import Counter
from pathlib import Path
from typing import Any

from .run import Run

MOST_TRACES = 200  # of one Function, in its table: the latest
MOST_MARKS = 400  # on one line of time
MOST_TEXT = 300  # characters of a signature or a cause
MOST_LINES = 60  # of a source
AROUND = 3  # lines above and below a call

_STATES = {
    "fail": "could not be traced",
    "mismatch": "a graph was wrong",
    "warn": "warned",
    "evict": "a graph was evicted",
    "tape": "runs on a kernel tape",
    "no_tape": "runs on the interpreter",
    "drop_tape": "a tape was dropped",
    "capture": "runs as a CUDA graph",
    "no_capture": "is no CUDA graph",
    "drop": "a CUDA graph was dropped",
}


def document(path: str, run: Run, graphs: dict[int, str] | None = None) -> str:
    """What a file of this name has: `.json` the data, `.html` the page.

    Args:
        graphs: drawings of graphs as SVG, by the site of the Function.

    Raises:
        ImportError: Jinja2 is missing.
    """
    return (
        json.dumps(run, ensure_ascii=False, indent=1) + "\n"
        if path.endswith(".json")
        else page(run, graphs)
    )


def page(run: Run, graphs: dict[int, str] | None = None) -> str:
    """HTML, from what run.of_this_process() or run.of_lines() gives."""
    by_site: dict[int, list[dict[str, Any]]] = {}
    for event in run["events"]:
        by_site.setdefault(event["site"], []).append(event)
    begin, end = _span(run)
    functions = [
        _function(row, by_site.get(row["site"], []), begin, end) for row in run["functions"]
    ]
    for one in functions:
        one["graph"] = (graphs or {}).get(one["row"]["site"], "")
    return _template().render(
        title=_title(run),
        run=run,
        seconds=end - begin,
        functions=functions,
        total=_total(run["functions"]),
        share=_share(run["functions"], end - begin),
    )


def _template() -> Any:
    import jinja2  # for those who ask for a page

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(cut=_cut, number=_number, ms=_ms)
    return environment.get_template("page.html.jinja")


def _title(run: Run) -> str:
    return os.path.basename(run["program"][0]) if run["program"] else "a run"


def _span(run: Run) -> tuple[float, float]:
    times = [event["time"] for event in run["events"]]
    begin = run["started"] if run["started"] is not None else min(times, default=0.0)
    end = run["ended"] if run["ended"] is not None else max([begin, *times])
    return begin, max(end, begin)


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("calls", "hits", "traces", "retraces", "ms")
    return {name: _sum(row[name] for row in rows) for name in names}


def _sum(values: Any) -> Any:
    """None: not known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _share(rows: list[dict[str, Any]], seconds: float) -> float | None:
    """Of the run's time, that its traces took; per cent."""
    return 100 * sum(row["ms"] for row in rows) / 1000 / seconds if seconds > 0 else None


def _function(row: dict[str, Any], events: list[dict[str, Any]], begin: float, end: float) -> Any:
    traces = [event for event in events if event["event"] == "trace"]
    others = Counter(
        (_STATES[event["event"]], event.get("text", ""))
        for event in events
        if event["event"] in _STATES
    )
    return {
        "row": row,
        "advice": [_split(line) for line in row["advice"].splitlines() if line.strip()],
        "traces": traces[-MOST_TRACES:],
        "left_out": max(0, len(traces) - MOST_TRACES),
        "marks": _marks(traces, begin, end),
        "others": [(what, text, count) for (what, text), count in others.most_common(20)],
        "source": _sources(row["definition"], traces),
        "begin": begin,
    }


def _split(line: str) -> tuple[str, str]:
    """`  fix   text` -> (fix, text); a continued line has no first part."""
    if line[2:5] in ("why", "fix", "or ", "see"):
        return line[2:5].strip(), line[8:]
    return "", line.strip()


def _marks(traces: list[dict[str, Any]], begin: float, end: float) -> list[dict[str, Any]]:
    """Each trace on a line from 0 to 1000."""
    span = (end - begin) or 1.0
    return [
        {
            "at": round(1000 * min(max((trace["time"] - begin) / span, 0.0), 1.0), 1),
            "again": bool(trace["causes"]),
            "text": f"{trace['time'] - begin:.2f} s, {_ms(trace['ms'])}",
        }
        for trace in traces[-MOST_MARKS:]
    ]


def _sources(place: dict[str, Any] | None, traces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The definition, and the lines of the calls that were traced again; what can be read of them."""
    calls = Counter(
        (trace["call"]["file"], trace["call"]["line"])
        for trace in traces
        if trace["call"] and trace["causes"]
    )
    found = []
    if place:
        found.append(_source(place["file"], place["line"], {}, is_definition=True))
    for (file, number), _ in calls.most_common(3):
        marked = {line: count for (other, line), count in calls.items() if other == file}
        found.append(_source(file, number, marked, is_definition=False))
    return [one for one in found if one["lines"]]


def _source(file: str, number: int, marked: dict[int, int], is_definition: bool) -> dict[str, Any]:
    lines = (
        linecache.getlines(file) if file.endswith(".py") else []
    )  # not any file that a line names
    first = number if is_definition else max(1, number - AROUND)
    last = _end_of_block(lines, number) if is_definition else number + AROUND
    shown = [
        {"number": n, "text": lines[n - 1].rstrip("\n"), "count": marked.get(n)}
        for n in range(first, min(last, len(lines), first + MOST_LINES) + 1)
    ]
    what = "the definition" if is_definition else "a call that was traced again"
    return {"what": what, "place": f"{os.path.basename(file)}:{number}", "lines": shown}


def _end_of_block(lines: list[str], number: int) -> int:
    """The last line of the decorated `def` at this line, by indentation."""
    indent = lambda line: len(line) - len(line.lstrip())  # noqa: E731
    if number > len(lines):
        return number
    base, inside = indent(lines[number - 1]), False
    last = number
    for at in range(number, min(len(lines), number + MOST_LINES)):
        text = lines[at - 1]
        if not text.strip():
            continue
        if inside and indent(text) <= base and not text.lstrip().startswith(")"):
            break
        inside = inside or text.lstrip().startswith(("def ", "async def ", "lambda"))
        last = at
    return last


def _cut(value: Any, most: int = MOST_TEXT) -> str:
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _ms(value: float) -> str:
    return (
        f"{value:.1f} ms"
        if value < 10
        else f"{value:,.0f} ms"
        if value < 10_000
        else f"{value / 1000:,.1f} s"
    )
