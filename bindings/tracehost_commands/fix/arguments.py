"""Where a call passes the argument of a path: `batch['image']` of `step(batch=...)`."""

from __future__ import annotations

import ast

import libcst as cst

from .found import Line
from .source import CannotWrite, Function, Source, last_name


def parameters(source: Source, function: Function, call: cst.Call) -> list[str]:
    """The names that the positional arguments of the call have."""
    of = function.params
    names = [one.name.value for one in (*of.posonly_params, *of.params)]
    owner = source.class_of(function)
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    is_static = any(last_name(one.decorator) == "staticmethod" for one in decorators)
    if owner and not is_static and isinstance(call.func, cst.Attribute):
        names = names[last_name(call.func.value) != owner :]
    return names


def argument(call: cst.Call, parameters: list[str], path: str, place: Line) -> cst.CSTNode:
    """The Arg, or the element of a literal, that has the value at the path."""
    steps: list[object] = []
    node = ast.parse(path, mode="eval").body
    while not isinstance(node, ast.Name):
        is_item = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
        if not is_item:
            raise CannotWrite(f"{path} is kept in an object")
        steps.insert(0, node.slice.value)
        node = node.value
    found: cst.CSTNode = _passed(call, parameters, node.id, place)
    for step in steps:
        found = _element(found.value, step, path)  # type: ignore[attr-defined]
    return found


def _passed(call: cst.Call, parameters: list[str], name: str, place: Line) -> cst.Arg:
    for one in call.args:
        if one.keyword is not None and one.keyword.value == name:
            return one
    if any(one.star for one in call.args):
        raise CannotWrite(f"line {place.line} passes its arguments by a star")
    positional = [one for one in call.args if one.keyword is None]
    if name not in parameters or parameters.index(name) >= len(positional):
        raise CannotWrite(f"line {place.line} passes no argument {name!r}")
    return positional[parameters.index(name)]


def _element(value: cst.BaseExpression, step: object, path: str) -> cst.CSTNode:
    if isinstance(value, cst.Dict):
        for one in value.elements:
            key = one.key if isinstance(one, cst.DictElement) else None
            if isinstance(key, cst.SimpleString) and key.evaluated_value == step:
                return one
    if isinstance(value, cst.Tuple | cst.List) and isinstance(step, int):
        elements = value.elements
        if all(isinstance(one, cst.Element) for one in elements) and step < len(elements):
            return elements[step]
    raise CannotWrite(f"{path} is not written in the call")


_EFFECTS = (cst.Call, cst.Await, cst.Yield, cst.NamedExpr)


def check_dropped(node: cst.CSTNode, text: str, place: Line) -> None:
    """An argument that is no longer passed is not computed either."""
    if text != "None":
        return
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, _EFFECTS):
            raise CannotWrite(f"line {place.line} calls code for this argument")
        stack += one.children
