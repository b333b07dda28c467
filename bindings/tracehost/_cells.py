"""How a notebook's places are shown: `In[3]:2` for `/tmp/ipykernel_17/1283746.py:2`."""

from __future__ import annotations

import os
import sys
from typing import Any


def in_cells(text: str) -> str:
    """With cells as the notebook numbers them, in place of the files' names that IPython gives them."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_shell and get_shell()
    files = getattr(getattr(shell, "compile", None), "_filename_map", None) or {}
    for file, count in list(files.items()):
        text = text.replace(os.path.basename(file), f"In[{count}]")
    return text


def table_in_cells(text: str) -> str:
    """The same for a table whose first column has the places: the others stay where they are."""
    lines = []
    for line in text.splitlines(keepends=True):
        told = in_cells(line)
        first, gap, rest = told.partition("  ")
        lines.append(first + " " * (len(line) - len(told)) + gap + rest)
    return "".join(lines)


def anywhere(value: Any) -> Any:
    """The texts of a value that is one, or a tuple of some."""
    if isinstance(value, str):
        return in_cells(value)
    return tuple(map(anywhere, value)) if type(value) is tuple else value
