"""Short constructors for the nodes of generated code, each at the place of the user's own."""

from __future__ import annotations

import ast
from typing import Any

LOAD = ast.Load()
STORE = ast.Store()
OPERATORS = "ag__"
THUNK = "ag__thunk"

Where = dict[str, Any]


def where(node: ast.AST) -> Where:
    """A node's place, as keyword arguments of another's constructor."""
    line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
    return {
        "lineno": line,
        "col_offset": column,
        "end_lineno": getattr(node, "end_lineno", None) or line,
        "end_col_offset": getattr(node, "end_col_offset", None) or column,
    }


def first_line(node: ast.AST) -> Where:
    """The place of a compound statement's header: its body has places of its own."""
    line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
    return {"lineno": line, "col_offset": column, "end_lineno": line, "end_col_offset": column}


def name(text: str, at: Where) -> ast.Name:
    return ast.Name(text, LOAD, **at)


def last_name(node: ast.expr) -> str | None:
    """`f` of `f` and of `a.b.f`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def constant(value: Any, at: Where) -> ast.Constant:
    return ast.Constant(value, **at)


def operator(text: str, at: Where) -> ast.Attribute:
    return ast.Attribute(ast.Name(OPERATORS, LOAD, **at), text, LOAD, **at)


def operation(text: str, arguments: list[ast.expr], at: Where) -> ast.Call:
    return ast.Call(operator(text, at), arguments, [], **at)


def assign(target: str, value: ast.expr, at: Where) -> ast.Assign:
    return ast.Assign([ast.Name(target, STORE, **at)], value, **at)


def undefined(text: str, at: Where) -> ast.Call:
    return operation("Undefined", [constant(text, at)], at)


def names_tuple(texts: list[str], at: Where) -> ast.Tuple:
    return ast.Tuple([constant(text, at) for text in texts], LOAD, **at)


def no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def one_argument(text: str, at: Where) -> ast.arguments:
    return ast.arguments([], [ast.arg(text, None, **at)], None, [], [], None, [])


def thunk(body: ast.expr, at: Where) -> ast.Lambda:
    """A lambda without arguments. Its parameter distinguishes its code from that of a user's lambda."""
    marked = ast.arguments([], [], ast.arg(THUNK, None, **at), [], [], None, [])
    return ast.Lambda(marked, body, **at)


def define(text: str, arguments: ast.arguments, body: list[ast.stmt], at: Where) -> ast.FunctionDef:
    made = ast.FunctionDef(text, arguments, body or [ast.Pass(**at)], [], None, **at)
    made.type_params = []  # from Python 3.12 on; an attribute that nobody reads before
    return made


def declare(kind: type[ast.Global] | type[ast.Nonlocal], names: list[str], at: Where) -> list[Any]:
    return [kind(names, **at)] if names else []
