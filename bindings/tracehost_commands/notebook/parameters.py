"""Parameters by papermill's conventions: a cell tagged `parameters` has the defaults, the values given go
into a cell tagged `injected-parameters` behind it."""

from __future__ import annotations

import ast
import difflib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import UsageError, need
from .document import free_id

DEFAULTS, INJECTED = "parameters", "injected-parameters"

_WORDS = {"true": True, "false": False, "null": None, "inf": math.inf, "nan": math.nan}


def given(assignments: list[str], files: list[str]) -> dict[str, Any]:
    """What -P and -p say; -p wins."""
    values: dict[str, Any] = {}
    for file in files:
        values.update(_from_file(file))
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"-p takes NAME=VALUE, got '{assignment}'")
        values[name] = _value(name, value)
    for name in values:
        if not isinstance(name, str) or not name.isidentifier():
            raise UsageError(f"a parameter must be a Python name, got '{name}'")
    return values


def _value(name: str, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        if isinstance(error, SyntaxError) and text[:1] in ("[", "{", "("):
            raise UsageError(
                f"-p {name}={text} is not a Python literal, at column {error.offset}: {error.msg}"
            ) from None
        return _WORDS.get(text.lower(), text)


def _from_file(file: str) -> dict[str, Any]:
    try:
        content = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the parameters of {file}: {error}") from None
    language, load, rejected = "JSON", json.loads, (ValueError,)
    if file.endswith((".yaml", ".yml")):
        need("yaml:pyyaml", what=f"-P {file}")
        import yaml

        language, load, rejected = "YAML", yaml.safe_load, (ValueError, yaml.YAMLError)
    try:
        values = load(content)
    except rejected as error:
        raise UsageError(f"{file} is not {language}: {' '.join(str(error).split())}") from None
    if not values and language == "YAML":  # an empty file
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"{file} must hold names and values, got a {type(values).__name__}")
    return values


def has_tag(cell: Any, tag: str) -> bool:
    return tag in cell.metadata.get("tags", [])


def _find(notebook: Any, tag: str) -> int | None:
    return next((i for i, cell in enumerate(notebook.cells) if has_tag(cell, tag)), None)


def defaults(notebook: Any) -> dict[str, str] | None:
    """The names that the `parameters` cell assigns, with the source of their values; None: no such cell."""
    index = _find(notebook, DEFAULTS)
    if index is None:
        return None
    try:
        tree = ast.parse(notebook.cells[index].source)
    except SyntaxError:  # a magic, say: nothing can be known
        return None
    found = {}
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            found.update(_assigned(target, getattr(statement, "value", None)))
    return found


def _assigned(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, str]]:
    """The names of a target, each with the source of its value; empty where that is not written: `a, b = pair`."""
    if isinstance(target, ast.Name):
        yield target.id, "" if value is None else ast.unparse(value)
    elif isinstance(target, ast.Starred):
        yield from _assigned(target.value, None)
    elif isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        starred = any(isinstance(one, ast.Starred) for one in (*target.elts, *values))
        are_written = len(values) == len(target.elts) and not starred
        for index, one in enumerate(target.elts):
            yield from _assigned(one, values[index] if are_written else None)


def inject(notebook: Any, values: dict[str, Any], shown: str) -> None:
    """Put the values into the notebook; raises UsageError for a name that it does not have."""
    notebook.cells = [cell for cell in notebook.cells if not has_tag(cell, INJECTED)]
    if not values:
        return
    known = defaults(notebook)
    if known is not None:
        for name in values:
            if name not in known:
                raise UsageError(_unknown(name, list(known), shown))
    import nbformat

    source = "\n".join(["# Parameters", *(f"{name} = {_source(v)}" for name, v in values.items())])
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": [INJECTED]})
    cell["id"] = free_id({c.id for c in notebook.cells}, INJECTED)
    index = _find(notebook, DEFAULTS)
    notebook.cells.insert(0 if index is None else index + 1, cell)


def _unknown(name: str, known: list[str], shown: str) -> str:
    near = difflib.get_close_matches(name, known, 1)
    meant = f"; did you mean '{near[0]}'?" if near else f"; it has {', '.join(known) or 'none'}"
    return f"{shown} has no parameter '{name}'{meant} (--list-params shows them)"


def _source(value: Any) -> str:
    """A value as Python source; those of JSON and YAML have one."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_source(k)}: {_source(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_source, value)) + "]"
    if isinstance(value, (str, int, float, tuple, set, bytes, complex)) or value in (None, ...):
        return repr(value)
    return repr(str(value))  # a date of YAML


def listing(notebook: Any) -> str:
    """A line each: `alpha = 0.1`."""
    known = defaults(notebook)
    if known is None:
        return "no cell is tagged `parameters`\n"
    return "".join(f"{name} = {value}\n" if value else f"{name}\n" for name, value in known.items())
