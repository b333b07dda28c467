"""Finds `any(v > 0 for v in x)`: a generator that has no effect but its values, as its source shows.

Nothing else takes from what such a generator goes over, so that each value may be computed in a branch of the one
before (`run/asking.py`). Of any other generator Python asks the values, and the graph checks them.
"""

from __future__ import annotations

import ast
from typing import Any

from . import nodes

_ASKING = ("any", "all")
_FUNCTIONS = ("abs", "len", "float", "int", "bool")
_METHODS = ("abs", "all", "any", "argmax", "argmin", "bool", "detach", "dim", "double", "exp", "float", "int", "isfinite",
            "isinf", "isnan", "item", "log", "long", "max", "mean", "min", "norm", "numel", "size", "sqrt", "square", "std",
            "sum", "var")  # fmt: skip
_PARTS = (
    (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.Load)
    + (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp)
    + (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
)


def is_asking(node: ast.Call) -> bool:
    """Whether it is any() or all() of a generator that has no effect."""
    if not isinstance(node.func, ast.Name) or node.func.id not in _ASKING:
        return False
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.GeneratorExp):
        return False
    first = node.args[0].generators[0]
    simple = len(node.args[0].generators) == 1 and not first.ifs and not first.is_async
    return simple and _is_pure(node.args[0].elt)


def handed(function: ast.expr, generator: Any) -> ast.expr:
    """The argument: the generator as a function of what it goes over, which is known before it."""
    first = generator.generators[0]
    gone_over, first.iter = first.iter, nodes.name(nodes.THUNK)
    make = ast.Lambda(nodes.one_argument(nodes.THUNK), generator)
    return nodes.placed(nodes.operation("asked", function, make, gone_over), generator)


def _is_pure(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute):
            known = function.attr in _METHODS and _is_pure(function.value)
        else:
            known = isinstance(function, ast.Name) and function.id in _FUNCTIONS
        parts: list[ast.AST] = [*node.args, *[k.value for k in node.keywords]]
        return known and all(map(_is_pure, parts))
    return isinstance(node, _PARTS) and all(map(_is_pure, ast.iter_child_nodes(node)))
