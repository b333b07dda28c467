"""Short constructors for the nodes of generated code.

They make nodes without a place in the file. What stands for a node of the user's is `placed` there; what is left
has the place of the node around it (`complete`).
"""

from __future__ import annotations

import ast
import functools
from typing import Any

LOAD = ast.Load()
STORE = ast.Store()
OPERATORS = "ag__"
THUNK = "ag__thunk"

_NOT_CHILDREN = {
    "ctx",
    "op",
    "ops",
    "attr",
    "id",
    "kind",
    "type_comment",
    "conversion",
    "level",
    "pattern",
}


@functools.cache
def children(kind: type) -> tuple[str, ...]:
    """The fields that may hold expressions and statements to convert. A pattern of a match stays."""
    fields = kind._fields  # type: ignore[attr-defined]
    return tuple(f for f in fields if f not in _NOT_CHILDREN)


def placed(made: Any, node: ast.AST) -> Any:
    """`made`, at the place of the user's node, if it has none. That of a compound statement is its header's."""
    if not hasattr(made, "lineno"):
        ast.copy_location(made, node)
        if isinstance(node, ast.stmt) and hasattr(node, "body"):  # which has places of its own
            made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
    return made


def complete(tree: Any) -> Any:
    """ast.fix_missing_locations, without recursion: sums may have hundreds of terms."""
    todo = [(tree, tree)]
    while todo:
        node, around = todo.pop()
        if "lineno" in node._attributes:
            around = placed(node, around)
        for name in children(type(node)):
            value = getattr(node, name, None)
            parts = value if type(value) is list else (value,)
            todo += [(part, around) for part in parts if isinstance(part, ast.AST)]
    return tree


def name(text: str) -> ast.Name:
    return ast.Name(text, LOAD)


def last_name(node: ast.expr) -> str | None:
    """`f` of `f` and of `a.b.f`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def operator(text: str) -> ast.Attribute:
    return ast.Attribute(name(OPERATORS), text, LOAD)


def operation(text: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(operator(text), list(arguments), [])


def assign(target: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(target, STORE)], value)


def undefined(text: str) -> ast.Call:
    return operation("Undefined", ast.Constant(text))


def names_tuple(texts: list[str]) -> ast.Tuple:
    return ast.Tuple([ast.Constant(text) for text in texts], LOAD)


def no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def one_argument(text: str) -> ast.arguments:
    return ast.arguments([], [ast.arg(text)], None, [], [], None, [])


def thunk(body: ast.expr) -> ast.Lambda:
    """A lambda without arguments. Its parameter distinguishes its code from that of a user's lambda."""
    return ast.Lambda(ast.arguments([], [], ast.arg(THUNK), [], [], None, []), body)


def define(text: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.FunctionDef(text, arguments, body or [ast.Pass()], [])
    made.type_params = []  # from Python 3.12 on; an attribute that nobody reads before
    return made


def declare(kind: type[ast.Global] | type[ast.Nonlocal], names: list[str]) -> list[Any]:
    return [kind(names)] if names else []
