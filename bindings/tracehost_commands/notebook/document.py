"""A notebook as a file: read with clear errors, cleared, written so that nothing is ever lost."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from ..errors import UsageError

STDIN = STDOUT = "-"


def read(source: str) -> Any:
    """The notebook in a file, or on standard input, as format 4.5 with valid ids; raises UsageError."""
    import nbformat
    from nbformat import reader

    shown = "standard input" if source == STDIN else source
    text = _text(source, shown)
    try:
        raw = json.loads(text)
    except ValueError as error:
        what = "it is empty" if not text.strip() else f"it is not JSON: {error}"
        raise UsageError(f"{shown} is not a notebook: {what}") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("nbformat"), int):
        raise UsageError(f"{shown} is not a notebook: it is JSON, but without a number 'nbformat'")
    if raw["nbformat"] > 4:
        raise UsageError(
            f"{shown} is of notebook format {raw['nbformat']}; up to 4 can be read: pip install -U nbformat"
        )
    if raw["nbformat"] == 4 and not isinstance(raw.get("cells"), list):
        raise UsageError(f"{shown} is not a notebook: it has no list 'cells'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old formats; ids are made below
            # The reader joins texts that the file has as lists of lines.
            notebook = nbformat.convert(nbformat.from_dict(reader.reads(text)), 4)
            _modernise(notebook, has_ids=(raw["nbformat"], raw.get("nbformat_minor", 0)) >= (4, 5))
            nbformat.validate(notebook)
    except Exception as error:  # anything that a damaged file makes a converter stumble over
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(f"{shown} is a damaged notebook: {first[0]}") from None
    return notebook


def _text(source: str, shown: str) -> str:
    try:
        data = sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown} is not a notebook: {error}") from None


def _modernise(notebook: Any, has_ids: bool) -> None:
    """Format 4.5: each cell has an id of its own. Made by place, so that the same file gives the same ids."""
    if not has_ids:
        for cell in notebook.cells:
            cell.pop("id", None)
    notebook.nbformat_minor = max(5, notebook.nbformat_minor)
    notebook.metadata.pop("orig_nbformat", None)
    notebook.metadata.pop("orig_nbformat_minor", None)
    seen = {cell["id"] for cell in notebook.cells if isinstance(cell.get("id"), str)}
    used = set()
    for index, cell in enumerate(notebook.cells):
        if not isinstance(cell.get("id"), str) or cell["id"] in used:
            cell["id"] = free_id(seen, f"cell-{index}")
            seen.add(cell["id"])
        used.add(cell["id"])


def free_id(taken: set[str], wanted: str) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def clear(notebook: Any) -> None:
    """Forget what an earlier run left."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
            cell.metadata.pop("tracehost", None)
            cell.metadata.pop("execution", None)
    notebook.metadata.pop("widgets", None)


def is_ours(path: Path) -> bool:
    """Whether a file is one that tracehost wrote, a notebook or a kernel's, so that it may be written again."""
    try:
        content = json.loads(path.read_bytes())
        return "tracehost" in content["metadata"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def text(notebook: Any) -> str:
    import nbformat

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a result that is not valid is better kept than lost
        return nbformat.writes(notebook) + "\n"


def web_page(notebook: Any) -> str:
    import importlib.metadata

    from nbconvert.exporters import HTMLExporter

    # Its templates are where it is installed, which need not be below sys.prefix.
    for file in importlib.metadata.files("nbconvert") or ():
        if str(file).endswith("share/jupyter/nbconvert/templates/lab/conf.json"):
            shared = str(Path(str(file.locate())).resolve().parents[3])
            known = os.environ.get("JUPYTER_PATH")
            os.environ["JUPYTER_PATH"] = f"{known}{os.pathsep}{shared}" if known else shared
    body, _ = HTMLExporter().from_notebook_node(notebook)
    return body
