"""What a notebook shows of a Function and of a ConcreteFunction: tables of bounded size, without scripts, in
the colours of the page they stand in."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from .._cells import in_cells
from .._concrete import ConcreteFunction, brief, is_constant
from .._tracehost import Function
from .report import events

MOST_ROWS = 25
MOST_TEXT = 300  # characters of one text
MOST_CODE = 200  # lines

_CELL = "text-align:left;vertical-align:top;padding:2px 8px;border-bottom:1px solid rgba(127,127,127,.3)"
_ON_ONE_LINE = ";white-space:nowrap"  # though the table be narrower
_CAPTION = "text-align:left;color:inherit"


def cut(text: str, most: int = MOST_TEXT) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def first_lines(text: str) -> list[str]:
    lines = text.rstrip().split("\n")
    left = len(lines) - MOST_CODE
    return [*lines[:MOST_CODE], f"... and {left} more lines"] if left > 0 else lines


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Everything is escaped; of many rows the latest are shown."""
    rows = list(rows)
    left = len(rows) - MOST_ROWS
    lines = [
        '<table style="border-collapse:collapse;color:inherit;background:transparent">',
        f'<caption style="{_CAPTION}{_ON_ONE_LINE if len(caption) <= 100 else ""}">{_text(caption)}</caption>',
        "<thead>" + _row("th", head) + "</thead>",
        "<tbody>",
    ]
    if left > 0:
        lines.append(
            f'<tr><td colspan="{len(head)}" style="{_CELL}">{left} earlier ones are not shown</td></tr>'
        )
    lines += [_row("td", row) for row in rows[-MOST_ROWS:]]
    return "\n".join([*lines, "</tbody>", "</table>"])


def _row(tag: str, cells: Sequence[Any]) -> str:
    style = _CELL + (_ON_ONE_LINE if tag == "th" else "")
    inside = "".join(f'<{tag} style="{style}">{_text(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"


def _text(value: Any) -> str:
    return html.escape(cut(in_cells(str(value)))).replace("\n", "<br>")


def signature_of(function: ConcreteFunction) -> str:
    """As a Function's table has it, and the result: (x: float32[None, 3], n=2) -> float32[None, 3]"""
    parameters = []
    for name, _, value in function._arguments(function._input_specs()):
        between = "=" if is_constant(value) else ": "
        parameters.append(f"{name}{between}{brief(value)}")
    return f"({', '.join(parameters)}) -> {brief(function.structured_outputs)}"


def pre(title: str, text: str) -> str:
    """A long text, folded."""
    inside = html.escape("\n".join(cut(line) for line in first_lines(text)))
    return (
        f"<details><summary>{_text(title)}</summary>"
        f'<pre style="color:inherit;background:transparent">{inside}</pre></details>'
    )


def _function(self: Function) -> str:
    """_repr_html_() -> str

    The live traces: signature, cause, cost.
    """
    stats = self.stats()
    caption = (
        f"{self.name}: {stats['calls']} calls, {stats['hits']} hits, "
        f"{stats['traces']} traces in {stats['trace_ms']:.1f} ms"
    )
    why = {}
    for event in events(self):
        if event.kind == "trace":
            why[event.signature] = "; ".join(event.causes) or "first trace"
    rows = [
        (s.number, s.signature, s.hits, s.ops, f"{s.trace_ms:.1f}", s.first_call, why.get(s.signature, ""))
        for s in self.specializations()
    ]  # fmt: skip
    head = ["#", "signature", "hits", "ops", "trace ms", "first call", "traced because"]
    return table(caption, head, rows)


def _concrete(self: ConcreteFunction) -> str:
    """What the graph takes and gives, and its code."""
    inputs = self._input_specs()
    rows = [("input", spec.name, spec.dtype, spec.shape) for spec in inputs]
    rows += [("capture", spec.name, spec.dtype, spec.shape) for spec in self.inputs[len(inputs) :]]
    rows += [("output", "", spec.dtype, spec.shape) for spec in self.outputs]
    caption = f"{self.name} {signature_of(self)}"
    return table(caption, ["", "name", "dtype", "shape"], rows) + pre("code", self.code)


Function._repr_html_ = _function
ConcreteFunction._repr_html_ = _concrete  # type: ignore[attr-defined]
