"""Which variables are read before they are assigned, from a place in the function on.

Only those of a loop or an if that are read behind it need a value where it alone assigns them. Those that may be read
before their first assignment begin as Undefined.

The statements have no jumps any more (`lower.py`), so one walk from the end to the start finds them.
Variables that a function defined here reads count as read everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .scopes import DEFINITIONS, TRIES, bound_names, target_names

_SCOPES = (*DEFINITIONS, ast.Lambda)
Names = frozenset[str]
NONE: Names = frozenset()


def read_first(body: list[ast.stmt], always: Iterable[str]) -> Names:
    """The names that may be read before they are assigned. `always`: variables that others read, too.

    Generated functions would give such a read the error of a free variable. Each for and if gets its `ag_used`.
    """
    everything = [n for statement in body for n in ast.walk(statement)]
    always = [
        *always,
        *(n for node in everything if isinstance(node, _SCOPES) for n in _read(node)),
    ]
    deleted = (n.id for n in everything if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del))
    found = _block(body, frozenset(always)).union(deleted)
    for node in everything:
        if hasattr(node, "ag_used") and isinstance(node, ast.If):
            node.ag_used = node.ag_used.union(always)
    return found


def _read(*nodes: ast.AST | None) -> Names:
    """Every name that occurs, but as the target of an assignment alone."""
    return frozenset(
        n.id
        for node in nodes
        if node is not None
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)
    )


def _block(body: list[ast.stmt], after: Names) -> Names:
    """What is read from the start of the block on, before it is assigned."""
    for statement in reversed(body):
        after = _statement(statement, after)
    return after


def _statement(node: ast.stmt, after: Names) -> Names:
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        assigned = frozenset(name for target in targets for name in target_names(target))
        return (after - assigned if node.value else after) | _read(*targets, node.value)
    if isinstance(node, ast.AugAssign):
        return after | _read(node.value, node.target) | frozenset(target_names(node.target))
    if isinstance(node, ast.If):
        node.ag_used = after  # type: ignore[attr-defined]
        return _read(node.test) | _block(node.body, after) | _block(node.orelse, after)
    if isinstance(node, (ast.For, ast.While)):
        return _loop(node, after)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return after | _block(node.body, after) | _read(*node.items)
    if isinstance(node, TRIES):
        return _try(node, after)
    if isinstance(node, ast.Match):
        parts = [_block(case.body, after) for case in node.cases]
        tests = [_read(case.pattern, case.guard) for case in node.cases]
        return after.union(_read(node.subject), *parts, *tests)
    if isinstance(node, (ast.Import, ast.ImportFrom, *DEFINITIONS)):
        return (after | _read(node)) - frozenset(bound_names(node))
    return after | _read(node)


def _loop(node: ast.For | ast.While, after: Names) -> Names:
    node.ag_used = after  # type: ignore[union-attr]
    target = frozenset(target_names(node.target)) if isinstance(node, ast.For) else NONE
    around = after if isinstance(node, ast.For) else after | _read(node.test)
    head = _read(node.iter, node.target) if isinstance(node, ast.For) else NONE
    while True:  # the next iteration comes after this one
        before = around | (_block(node.body, around) - target) | head
        if before == around:
            return around
        around = before


def _try(node: ast.Try, after: Names) -> Names:
    """Each statement of it may be the last one."""
    handlers = [_block(h.body, after) | _read(h.type) for h in node.handlers]
    final = _block(node.finalbody, after)
    anywhere = after.union(final, *handlers)
    orelse = _block(node.orelse, anywhere)
    return anywhere | _block(node.body, anywhere | orelse)
