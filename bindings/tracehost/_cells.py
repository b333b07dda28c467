"""How a notebook's places are shown: `In[3]:2` for `/tmp/ipykernel_17/1283746.py:2`."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any


def in_cells(text: str) -> str:
    """With cells as the notebook numbers them, in place of the files' names that IPython gives them."""
    for file, count in list(_files().items()):
        text = text.replace(os.path.basename(file), f"In[{count}]")
    return text


def name_cells_in_warnings() -> None:
    """The line that Python writes before a warning's text names the cell as well. Called where IPython runs."""
    if not _shell():
        return
    known = warnings.formatwarning

    def formatwarning(
        message: Any, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        text = known(message, category, filename, lineno, line)
        count = _files().get(filename) if category.__module__ == "tracehost" else None
        return text if count is None else text.replace(filename, f"In[{count}]", 1)

    warnings.formatwarning = formatwarning


def _shell() -> Any:
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_shell and get_shell()


def _files() -> dict[str, int]:
    """The numbers of cells, by the files that IPython compiles them as."""
    return getattr(getattr(_shell(), "compile", None), "_filename_map", None) or {}


def table_in_cells(text: str) -> str:
    """The same for a table whose first column has the places: the others stay where they are."""
    lines = []
    for line in text.splitlines(keepends=True):
        shown = in_cells(line)
        first, gap, rest = shown.partition("  ")
        lines.append(first + " " * (len(line) - len(shown)) + gap + rest)
    return "".join(lines)


def anywhere(value: Any) -> Any:
    """The texts of a value that is one, or a tuple of some."""
    if isinstance(value, str):
        return in_cells(value)
    return tuple(map(anywhere, value)) if type(value) is tuple else value
