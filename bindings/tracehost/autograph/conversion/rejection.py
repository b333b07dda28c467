"""Functions that stay as they are: what in them can't be taken apart."""

from __future__ import annotations

import ast
from typing import Any

from .lower import jump_in_finally
from .nodes import last_name
from .scopes import Function, same_scope
from .text import FRAME_READERS, Text


def rejection(node: Function, text: Text) -> str | None:
    """Why a function must stay as it is, if it must."""
    if isinstance(node, ast.AsyncFunctionDef):
        return "it is an async function: a graph can't wait"
    body: list[Any] = [node.body] if isinstance(node, ast.Lambda) else node.body
    if text.yields and any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in same_scope(body)):
        return "it is a generator: a graph can't pause. Return a list or a tuple"
    if text.frames:
        for call in same_scope(body):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                enough = FRAME_READERS.get(call.func.id)
                if enough is not None and len(call.args) + len(call.keywords) <= enough:
                    return f"it reads its own variables with {call.func.id}() (line {call.lineno})"
    if text.finals and not isinstance(node, ast.Lambda):
        line = jump_in_finally(node.body)
        if line is not None:
            return f"its finally block is left by return, break or continue (line {line})"
    return None


def decorated_do_not_convert(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    called = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(last_name(function) == "do_not_convert" for function in called)
