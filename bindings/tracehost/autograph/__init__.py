"""Autograph: Python's control flow on traced tensors, as control flow of the graph.

A function that tracehost traces is converted first, and with it what it calls of the user's own code:
`if`, `while`, `for`, `and`, `or`, `not`, conditional expressions, chained comparisons and `assert` ask the
value whether it is traced. On Python values they mean what they mean in Python.

This module is the public face. Each folder has an overview at its head, and imports only those before it:

- c_code.py: what a user says of C code
- conversion/: from source to converted code, which calls an operator for each statement
- staging/: what operators do for traced values: an If or a Loop of the graph
- run/: the operators themselves, which leave Python's values to Python
"""

from __future__ import annotations

import ast
import functools
from types import CellType, FunctionType
from typing import Any

import torch

from .._tracehost import converting
from .c_code import reads_only
from .conversion import compile as compiler
from .conversion.compile import converted_tree
from .conversion.nodes import THUNK, complete
from .conversion.policy import convert, do_not_convert
from .conversion.source import NoSource
from .run import operators
from .run.calls import call
from .staging.options import LoopOptions, set_loop_options

__all__ = ["LoopOptions", "convert", "do_not_convert", "reads_only", "set_loop_options", "to_code"]


def to_code(function: Any) -> str:
    """The source of the converted function, for reading: `ag__` holds autograph's operators.

    Args:
        function: a function, lambda, method, partial, module (its forward) or tracehost.function.

    Returns:
        Python source. Decorators, defaults and annotations of the function itself are left out.

    Raises:
        TypeError: `function` is not a Python function.
        ValueError: it can't be converted; the message says why.
    """
    inner = function
    while not isinstance(inner, FunctionType):
        if isinstance(inner, functools.partial):
            inner = inner.func
            continue
        ways = ("__func__", "python_function", "forward")
        below = next((b for b in (getattr(inner, w, None) for w in ways) if b is not None), None)
        if below is None:
            raise TypeError(f"autograph.to_code takes a Python function, got {function!r}")
        inner = below
    try:
        tree, _ = converted_tree(inner)
    except NoSource as error:
        raise ValueError(f"{inner.__qualname__} is not converted: {error}") from None
    return ast.unparse(complete(tree)).replace(f"lambda *{THUNK}: ", "lambda: ")


# Generated code finds its operators here. The compiler can't import them, since they import the compiler.
compiler._operators_cell = CellType(operators)
_plain_forward = torch.nn.Module._slow_forward


def _slow_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Has nn.Module's call, hooks and all, lead to the converted forward while a body is traced.

    Only then the call takes this way (_tracehost says so to nn.Module alone).
    """
    if converting():
        return call(self.forward)(*args, **kwargs)
    return _plain_forward(self, *args, **kwargs)


torch.nn.Module._slow_forward = _slow_forward  # type: ignore[method-assign]
