"""Runs a notebook's cells in a kernel: saves, shows progress, reports at the end what was traced and why."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import write
from ..signals import reraise
from . import document
from .kernel_engine import KernelEngine
from .outcome import Outcome
from .parameters import has_tag
from .progress import Progress
from .retraces import Retraces

CODES = {"ok": 0, "exit": 0, "error": 1, "timeout": 124, "died": 138}
FAILED, TOO_MANY_RETRACES = 1, 3


class Runner:
    def __init__(
        self, options: Any, notebook: Any, name: str, folder: str, target: Path | None
    ) -> None:
        self._options, self._notebook, self._name = options, notebook, name
        self._folder, self._target = folder, target
        self._cells = [i for i, cell in enumerate(notebook.cells) if self._is_run(cell)]
        lines = "TRACEHOST_NOTEBOOK_LINES" in os.environ  # several run at a time
        self._progress = Progress(name, len(self._cells), stdout=target is not None, lines=lines)
        self._retraces = Retraces(notebook, options.max_retraces_per_cell)
        self._ran = 0
        self._trouble: str | None = None  # why the last save failed

    def _is_run(self, cell: Any) -> bool:
        skipped = any(has_tag(cell, tag) for tag in self._options.skip_tag)
        return cell.cell_type == "code" and bool(cell.source.strip()) and not skipped

    def run(self) -> int:
        notebook = self._notebook
        document.clear(notebook)
        notebook.metadata["tracehost"] = {"notebook": self._name}
        self._first_save()
        started = time.monotonic()
        engine = KernelEngine(notebook, self._folder, self._options, self._progress, self._save)
        try:
            engine.start()
            notebook.metadata["language_info"] = engine.language_info
            outcome = self._all_cells(engine)
        finally:
            engine.stop()
            self._progress.close()
        code = CODES.get(outcome.kind, FAILED)
        saved = self._last_save() + self._page()
        seconds = time.monotonic() - started
        of = "" if self._ran == len(self._cells) else f" of {len(self._cells)}"
        self._progress.say(f"{self._ran}{of} cells in {seconds:.1f} s -> {saved}")
        sys.stderr.write(self._retraces.table())
        if self._retraces.too_many:
            sys.stderr.write(self._retraces.complaint(self._name))
            code = code or TOO_MANY_RETRACES
        if self._trouble is not None:
            code = code or FAILED
        if outcome.kind == "interrupted":
            reraise(signal.SIGINT)
        if outcome.kind == "terminated":
            reraise(int(outcome.value))
        return code

    def _all_cells(self, engine: KernelEngine) -> Outcome:
        for number, index in enumerate(self._cells, 1):
            cell = self._notebook.cells[index]
            began = time.monotonic()
            outcome = engine.run(cell, index)
            self._ran = number
            seconds = time.monotonic() - began
            self._retraces.add(number, index, seconds, outcome.statistics)
            self._save()
            if outcome.kind == "error" and (
                self._options.allow_errors or has_tag(cell, "raises-exception")
            ):
                self._progress.done(number, seconds, f", {outcome.text}")
                continue
            if outcome.kind == "ok":
                self._progress.done(number, seconds)
                continue
            self._report(number, cell, outcome)
            return outcome
        return Outcome("ok")

    def _report(self, number: int, cell: Any, outcome: Outcome) -> None:
        where = f"cell {number} of {len(self._cells)}"
        if outcome.kind == "error":
            for output in cell.outputs:
                if output.output_type == "error":
                    self._progress.traceback(output.traceback)
            line = "" if outcome.line is None else f", line {outcome.line}"
            self._progress.say(f"{where}{line}: {outcome.text}")
        elif outcome.kind == "exit":
            self._progress.say(f"{where}: the notebook ended itself")
        elif outcome.kind in ("timeout", "died"):
            self._progress.say(f"{where}: {outcome.value}")
        else:
            self._progress.say(f"{where}: {outcome.kind}")

    def _first_save(self) -> None:
        """Before any cell runs: after an hour it would be too late to find out."""
        try:
            self._write()
        except OSError as error:
            raise UsageError(f"cannot write {self._target}: {error.strerror}") from None

    def _save(self) -> None:
        try:
            self._write()
            self._trouble = None
        except OSError as error:
            if self._trouble is None:
                self._progress.say(
                    f"cannot save to {self._target}: {error.strerror}; what was saved before is there, "
                    "and it is tried again after the next cell"
                )
            self._trouble = error.strerror or str(error)

    def _write(self) -> None:
        if self._target is not None:
            write(self._target, document.text(self._notebook))

    def _last_save(self) -> str:
        """Where the result is; it is kept somewhere even if it can't be where it belongs."""
        if self._target is None:
            sys.stdout.write(document.text(self._notebook))
            sys.stdout.flush()
            return "standard output"
        self._save()
        if self._trouble is None:
            return str(self._target)
        rescued = Path(tempfile.gettempdir()) / f"{self._target.stem}-{os.getpid()}.ipynb"
        try:
            write(rescued, document.text(self._notebook))
        except OSError:
            return f"NOT SAVED: {self._target}: {self._trouble}"
        return f"{rescued} (not {self._target}: {self._trouble})"

    def _page(self) -> str:
        """Writes the web page, beside the result if it has no place of its own; says so, or what failed."""
        html = self._options.html
        if html is None:
            return ""
        page = (
            (self._target or Path(self._name)).with_suffix(".html") if html == "-" else Path(html)
        )
        try:
            write(page, document.web_page(self._notebook))
        except Exception as error:  # a template's, say
            self._trouble = self._trouble or "--html"
            return f", no web page: {error}"
        return f", {page.name}"
