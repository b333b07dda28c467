"""What a user sees while a notebook runs: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import contextlib
import os
from typing import Any, TextIO

from .streams import plain


class Progress:
    """tracehost's lines go to stderr; what cells print goes to stdout and stderr, as it comes."""

    def __init__(self, name: str, cells: int, *, stdout: bool, lines: bool) -> None:
        self._name, self._cells = name, cells
        self._err = _text_to(2)
        self._out = _text_to(1) if stdout else self._err
        self._prefix = f"{name}: " if lines else ""
        self._begun = {"stdout": "", "stderr": ""}
        self._bar: Any = None
        self._at_start: dict[str, bool] = {"stdout": True, "stderr": True}
        if self._err.isatty() and not lines:
            self._bar = _bar(cells, name, self._err)

    def done(self, number: int, seconds: float, note: str = "") -> None:
        """`number`: of code cells that are done."""
        if self._bar is None:
            self.say(f"cell {number} of {self._cells}: {seconds:.1f} s{note}")
        else:
            self._bar.n = number
            self._bar.refresh()

    def say(self, text: str) -> None:
        self._end_lines()
        with self._aside():
            self._err.write(f"tracehost: {self._name}: {text}\n")
            self._err.flush()

    def stream(self, name: str, text: str) -> None:
        target = self._out if name == "stdout" else self._err
        if self._prefix:  # whole lines only: others write to the same place
            begun, newline, rest = (self._begun[name] + text).rpartition("\n")
            self._begun[name] = rest
            lines = begun.split("\n") if newline else []
            text = "".join(f"{self._prefix}{line}\n" for line in lines)
        with self._aside(), contextlib.suppress(BrokenPipeError):
            target.write(text)
            target.flush()
        self._at_start[name] = text.endswith("\n") or not text

    def traceback(self, lines: list[str]) -> None:
        text = "\n".join(lines) + "\n"
        self.stream("stderr", text if self._err.isatty() else plain(text))

    def _end_lines(self) -> None:
        """A line of tracehost does not begin in the middle of a line of the notebook."""
        for name, text in self._begun.items():
            if text:
                self.stream(name, "\n")
        both = self._out is self._err or self._err.isatty()
        if not self._at_start["stderr"] or (both and not self._at_start["stdout"]):
            self._err.write("\n")
        self._at_start = {"stdout": True, "stderr": True}

    @contextlib.contextmanager
    def _aside(self) -> Any:
        if self._bar is not None:
            self._bar.clear()
        yield
        if self._bar is not None and all(self._at_start.values()):
            self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.leave = False
            self._bar.close()
            self._bar = None


def _text_to(descriptor: int) -> TextIO:
    """Its stream in UTF-8, in any locale."""
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", closefd=False)


def _bar(cells: int, name: str, file: Any) -> Any:
    try:
        import tqdm
    except ImportError:
        return None
    return tqdm.tqdm(
        total=cells,
        desc=name,
        unit="cell",
        file=file,
        leave=False,
        dynamic_ncols=True,
        bar_format="{desc}: {n_fmt}/{total_fmt} cells |{bar}| {elapsed}",
    )
