"""The end of a function whose returns stand in staged blocks."""

from __future__ import annotations

from typing import Any

from .where import line, refuse


def return_value(do_return: Any, value: Any) -> Any:
    """`do_return` is a traced bool: some path had no return."""
    if value is None:
        return None
    refuse(
        f"a function returns a value on some paths only, by a condition that is a tensor (last line: {line()}). "
        "Add a final return of the same kind: a graph can't return a tensor or None."
    )
