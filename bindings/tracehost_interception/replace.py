"""One thing in place of another in a module or class: put there, taken back."""

from __future__ import annotations

from typing import Any

# What was put where: (owner, name, put there, what was there; None: nothing of its own).
_replaced: list[tuple[Any, str, Any, Any]] = []


def is_ours(owner: Any, name: str) -> bool:
    there = vars(owner).get(name)
    return any(o is owner and n == name and made is there for o, n, made, _ in _replaced)


def put(owner: Any, name: str, made: Any) -> None:
    _replaced.append((owner, name, made, vars(owner).get(name)))
    setattr(owner, name, made)


def undo_all() -> None:
    """Restore what was there, where tracehost's replacement still is."""
    while _replaced:
        owner, name, put, before = _replaced.pop()
        if vars(owner).get(name) is not put:
            continue
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
