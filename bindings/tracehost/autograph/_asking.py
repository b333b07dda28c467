"""`any(v > 0 for v in x)`: generators of which each value may be computed in a branch of the one before.

Such a generator has no effect but its values, as can be seen from its source, and nothing else takes from what it
goes over. Of any other one Python asks the values, and the graph checks them.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import Any

import torch

from .._tracehost import recording
from ._state import is_tensor

_ASKING = ("any", "all")
_VIEWS = ("enumerate", "zip", "range", "reversed")
_FUNCTIONS = ("abs", "len", "float", "int", "bool")
_METHODS = (
    *(
        "abs",
        "all",
        "any",
        "argmax",
        "argmin",
        "bool",
        "detach",
        "dim",
        "double",
        "exp",
        "float",
        "int",
    ),
    *(
        "isfinite",
        "isinf",
        "isnan",
        "item",
        "log",
        "long",
        "max",
        "mean",
        "min",
        "norm",
        "numel",
        "size",
    ),
    *("sqrt", "square", "std", "sum", "var"),
)
_PARTS = (
    *(
        ast.Name,
        ast.Constant,
        ast.Attribute,
        ast.Subscript,
        ast.Slice,
        ast.Tuple,
        ast.BinOp,
        ast.UnaryOp,
    ),
    *(
        ast.Compare,
        ast.BoolOp,
        ast.IfExp,
        ast.operator,
        ast.unaryop,
        ast.cmpop,
        ast.boolop,
        ast.Load,
    ),
)


def sources(node: ast.Call) -> list[str] | None:
    """The variables that the generator goes over, if it is one of any() or all() that has no effect."""
    if not isinstance(node.func, ast.Name) or node.func.id not in _ASKING:
        return None
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.GeneratorExp):
        return None
    generator = node.args[0]
    first = generator.generators[0]
    if len(generator.generators) > 1 or first.ifs or first.is_async or not _is_pure(generator.elt):
        return None
    return _gone_over(first.iter)


def _gone_over(node: ast.expr) -> list[str] | None:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, (ast.Constant, ast.BinOp, ast.UnaryOp)) and _is_pure(node):
        return []
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        return None
    found = [_gone_over(argument) for argument in node.args]
    if node.func.id not in _VIEWS or any(part is None for part in found):
        return None
    return [name for part in found if part is not None for name in part]


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


class Asked:
    """A generator without effects, for any() and all()."""

    def __init__(self, values: Iterator[Any]) -> None:
        self.values = values


def asked(function: Any, values: Any, gone_over: tuple[Any, ...]) -> Any:
    """What generated code gives to `function` in place of the generator."""
    if function not in (builtins.any, builtins.all) or not recording():
        return values
    if not all(is_tensor(x) or type(x) in (list, tuple, range, int, torch.Size) for x in gone_over):
        return values
    return Asked(values)
