"""`%load_ext tracehost`: what a notebook or an IPython prompt can ask."""

from __future__ import annotations

import shlex
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from .. import _tracehost
from .._cells import in_cells
from .._concrete import ConcreteFunction
from .._switches import _NAMES, functions_run_eagerly, run_functions_eagerly, stance
from .drawing import Drawing
from .html import signature_of, table
from .monitor import counted, function_of, why
from .report import Event, events, latest_traces, sums

_HEAD = ["function", "call", "signature", "trace ms", "traced because"]


class Traces:
    """Some traces, as a table; as text where there are no tables."""

    def __init__(self, caption: str, traces: list[Event]) -> None:
        self._caption, self._traces = caption, traces

    def _repr_html_(self) -> str:
        rows = [
            (f"{e.function} ({e.definition})", e.call, e.signature, f"{e.ms:.1f}", why(e))
            for e in self._traces
        ]
        return table(self._caption, _HEAD, rows)

    def __repr__(self) -> str:
        lines = [
            f"  {e.function} ({e.definition}) at {e.call}: {why(e)}, {e.ms:.1f} ms"
            for e in self._traces
        ]
        return in_cells("\n".join([self._caption, *lines]))


@magics_class
class TracehostMagics(Magics):
    @cell_magic
    def trace(self, line: str, cell: str) -> None:
        """Run the cell, then show which of its calls were traced, and why."""
        if line.strip():
            raise UsageError("%%trace takes no argument")
        from IPython.display import display

        before = sums()
        try:
            self._run(cell)
        finally:
            counts = {name: number - before[name] for name, number in sums().items()}
            caption = ", ".join(
                counted(counts[name + "s"], name) for name in ("call", "hit", "trace")
            )
            display(Traces(caption, latest_traces(counts["traces"])))

    def _run(self, cell: str) -> None:
        """The rest of a cell, under that cell's number."""
        files = getattr(self.shell.compile, "_filename_map", {})
        number = max(files.values(), default=0)
        shown: list[Any] = []
        show = self.shell._showtraceback
        self.shell._showtraceback = lambda *args: shown.append(args)
        try:
            result = self.shell.run_cell(cell)
        finally:
            self.shell._showtraceback = show
        files.update({name: number for name, count in files.items() if count > number})
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return
        if shown:  # as it would be without the magic, whose own frames say nothing
            traceback = shown[-1][2]
            error._render_traceback_ = lambda: traceback
        raise error

    @line_magic
    def retraces(self, line: str) -> Traces:
        """%retraces [FUNCTION]: the retraces so far, of all Functions or of one, with their causes."""
        function = self._function(line, "%retraces") if line.strip() else None
        made = [event for event in events(function) if event.kind == "trace" and event.causes]
        return Traces(counted(len(made), "retrace"), made)

    @line_magic
    def graph(self, line: str) -> Drawing:
        """%graph FUNCTION [N]: the graph of its latest trace, or of the Nth of those that `f` shows."""
        words = line.split()
        if not 1 <= len(words) <= 2:
            raise UsageError("%graph takes a Function, and the number of a trace if you like")
        found = self._value(words[0], "%graph")
        if isinstance(found, ConcreteFunction):
            return Drawing(found.graph, f"{found.name} {signature_of(found)}")
        function = self._function(words[0], "%graph")
        numbers = [str(s.number) for s in function.specializations()]
        graphs = dict(zip(numbers, _tracehost.concrete_functions(function, ConcreteFunction)))
        if not graphs:
            raise UsageError(f"{words[0]} has no trace yet: call it first")
        wanted = words[1] if len(words) == 2 else numbers[-1]
        if wanted not in graphs:
            raise UsageError(f"{words[0]} has no trace {wanted}; it has {', '.join(numbers)}")
        chosen = graphs[wanted]
        return Drawing(chosen.graph, f"{function.name} #{wanted} {signature_of(chosen)}")

    @line_magic
    def tracehost_config(self, line: str) -> None:
        """%tracehost_config [stance=NAME] [eager=on|off]: show or set what calls of Functions do."""
        for word in shlex.split(line):
            name, equals, value = word.partition("=")
            if name == "stance" and value in _NAMES:
                stance(value)
            elif name == "eager" and value in ("on", "off"):
                run_functions_eagerly(value == "on")
            elif name == "stance" and equals:
                raise UsageError(f"there is no stance '{value}'; there are {', '.join(_NAMES)}")
            else:
                raise UsageError(
                    f"%tracehost_config takes stance=NAME and eager=on|off, got '{word}'"
                )
        now = _tracehost.process_stance().name
        print(f"stance={now} eager={'on' if functions_run_eagerly() else 'off'}")

    def _value(self, name: str, who: str) -> Any:
        try:
            return self.shell.ev(name.strip())
        except (NameError, AttributeError, SyntaxError) as error:
            raise UsageError(f"{who}: {error}") from None

    def _function(self, name: str, who: str) -> Any:
        try:
            return function_of(self._value(name, who), who)
        except TypeError as error:
            raise UsageError(str(error)) from None
