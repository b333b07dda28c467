"""Exceptions that a graph raises, as texts: class, message, and what else an exception has.

The last is a literal of Python: arguments, attributes, and the same of the exception that it was raised from. So
`raise OSError(errno.ENOENT, name)` has its errno when a graph raises it.
"""

from __future__ import annotations

import ast
import importlib
import types
from typing import Any

from .traced_number import TracedNumber

_DEEPEST = 4


class _NoLiteral(Exception):
    pass


def shown(error: BaseException) -> tuple[str, str, str]:
    """The class as `module:name`, the message, and the literal; empty: the message says all."""
    kind = type(error)
    args = error.args
    text = str(args[0]) if len(args) == 1 else str(error) if args else ""
    try:
        details = "" if _is_plain(error) else _details(error, 0)
    except _NoLiteral:  # its class and message are kept
        details = ""
    return f"{kind.__module__}:{kind.__qualname__}", text, details


def _is_plain(error: BaseException) -> bool:
    args = error.args
    return (
        (not args or (len(args) == 1 and type(args[0]) is str))
        and not _attributes(error)
        and not error.__suppress_context__
        and not _is_ours(type(error))
    )


def _is_ours(kind: type[BaseException]) -> bool:
    """Whether its `__init__` is code of Python, which may want other arguments than `args`."""
    return isinstance(kind.__init__, types.FunctionType)


def _attributes(error: BaseException) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(error).items()
        if name.isidentifier() and not name.startswith("__")
    }


def _details(error: BaseException, depth: int) -> str:
    if depth > _DEEPEST:
        raise _NoLiteral
    attributes = []
    for name, value in _attributes(error).items():
        try:
            attributes.append(f"{name!r}: {_literal(value)}")
        except _NoLiteral:
            continue  # the others are kept
    cause = "None"
    if error.__cause__ is not None:
        try:
            kind = type(error.__cause__)
            name = f"{kind.__module__}:{kind.__qualname__}"
            cause = f"({name!r}, {_details(error.__cause__, depth + 1)})"
        except _NoLiteral:
            cause = "None"
    return f"({_literal(error.args)}, {{{', '.join(attributes)}}}, {error.__suppress_context__}, {cause})"


def _literal(value: Any, depth: int = 0) -> str:
    """As repr(); a number of the graph is the mark that the graph puts its text for."""
    if depth > _DEEPEST:
        raise _NoLiteral
    if type(value) is TracedNumber:
        return str(value)
    if type(value) in (str, int, bool, bytes, complex, type(None)):
        return repr(value)
    if type(value) is float and value - value == 0:
        return repr(value)
    if type(value) in (tuple, list):
        items = [_literal(item, depth + 1) for item in value]
        if type(value) is list:
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)},)" if items else "()"
    if type(value) is dict:
        return (
            "{"
            + ", ".join(
                f"{_literal(k, depth + 1)}: {_literal(v, depth + 1)}" for k, v in value.items()
            )
            + "}"
        )
    raise _NoLiteral


def _class(name: str) -> type[BaseException]:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def made(name: str, text: str, details: str) -> BaseException | None:
    """The exception of shown(); None: the literal can't be read, as a number had no text."""
    try:
        parts = ast.literal_eval(details)
    except (ValueError, SyntaxError):
        return None
    return _made(_class(name), parts)


def _made(kind: type[BaseException], parts: Any) -> BaseException:
    args, attributes, alone, cause = parts
    if _is_ours(kind):  # its __init__ has run at the trace
        error = kind.__new__(kind, *args)
        error.args = args
    else:
        error = kind(*args)
    vars(error).update(attributes)
    if cause is not None:
        error.__cause__ = _made(_class(cause[0]), cause[1])
    error.__suppress_context__ = alone
    return error
