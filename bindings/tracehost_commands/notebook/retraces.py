"""What tracehost did in each cell: into the cell's metadata, and a table at the end."""

from __future__ import annotations

from typing import Any

_COLUMNS = ("cell", "seconds", "calls", "hits", "traces", "retraces", "trace ms")
_MOST_CAUSES = 20


class Retraces:
    def __init__(self, notebook: Any, allowed: int | None) -> None:
        self._notebook, self._allowed = notebook, allowed
        self._rows: list[tuple[int, float, dict[str, Any]]] = []

    def add(self, number: int, index: int, seconds: float, statistics: dict[str, Any]) -> None:
        """`statistics`: of tracehost._reports.report.since_last(); empty where tracehost is not imported."""
        if statistics:
            kept = statistics | {"causes": statistics["causes"][:_MOST_CAUSES]}
            self._notebook.cells[index].metadata["tracehost"] = kept
            self._rows.append((number, seconds, statistics))

    @property
    def too_many(self) -> list[tuple[int, dict[str, Any]]]:
        if self._allowed is None:
            return []
        return [(n, s) for n, _, s in self._rows if s["retraces"] > self._allowed]

    def complaint(self, name: str) -> str:
        lines = []
        for number, statistics in self.too_many:
            lines.append(
                f"tracehost: {name}: cell {number}: {statistics['retraces']} retraces, "
                f"{self._allowed} allowed (--max-retraces-per-cell)"
            )
            lines += [f"  {cause}" for cause in statistics["causes"][:_MOST_CAUSES]]
            left = len(statistics["causes"]) - _MOST_CAUSES
            if left > 0:
                lines.append(f"  and {left} more")
        return "\n".join(lines) + "\n"

    def table(self) -> str:
        """A line for each cell that called a Function; empty if none did."""
        rows = [
            (number, seconds, s) for number, seconds, s in self._rows if s["calls"] or s["traces"]
        ]
        if not rows:
            return ""
        cells = [_COLUMNS] + [
            (
                str(number),
                f"{seconds:.1f}",
                *(str(s[name]) for name in ("calls", "hits", "traces", "retraces")),
                f"{s['trace_ms']:.1f}",
            )
            for number, seconds, s in rows
        ]
        causes = ["main cause"] + [_main(s["causes"]) for _, _, s in rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(_COLUMNS))]
        return "".join(
            "  ".join([*(t.rjust(w) for t, w in zip(row, widths)), cause]).rstrip() + "\n"
            for row, cause in zip(cells, causes)
        )


def _main(causes: list[str]) -> str:
    """The last cause of the function that was retraced most."""
    if not causes:
        return ""
    functions = [cause.partition(":")[0] for cause in causes]
    most = max(functions, key=functions.count)
    cause = next(c for c in reversed(causes) if c.startswith(most))
    return cause if len(cause) <= 100 else cause[:99] + "…"
