"""What the text of a function says: which parameters its body reads, and what it does with a number.

The text is read where a warning needs it, never by a call. A body that Python code made, or whose file has gone, has
none: then nothing is known of it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
import textwrap
import tokenize
from collections.abc import Iterator

from .records import Place

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

# They may read any name.
_READS_ALL = {"locals", "vars", "eval", "exec", "dir"}


class Definition:
    """A function, as its file has it."""

    def __init__(self, node: _Function) -> None:
        self.node = node
        body = node.body if isinstance(node.body, list) else [node.body]
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        for statement in body:
            self.parents[statement] = node
            for one in ast.walk(statement):
                self.nodes.append(one)
                self.parents.update(dict.fromkeys(ast.iter_child_nodes(one), one))
        self.stored = {
            one.id
            for one in self.nodes
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
        }
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.parameters = {one.arg for one in every}
        decorators = getattr(node, "decorator_list", [])
        # False: it is said that control flow and numbers stay Python's
        self.is_converted = not any("autograph=False" in ast.unparse(one) for one in decorators)
        self.read = {
            one.id
            for one in self.nodes
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
        }

    def reads(self, parameter: str) -> bool:
        """False: no code of the body can read it."""
        is_plain = parameter in self.parameters and not self.read & _READS_ALL
        return not is_plain or parameter in self.read or parameter in self._augmented()

    def _augmented(self) -> set[str]:
        targets = [one.target for one in self.nodes if isinstance(one, ast.AugAssign)]
        return {one.id for one in targets if isinstance(one, ast.Name)}

    def loads(self, path: str) -> list[ast.AST]:
        """The places where the body reads the path: `lr`, `options['lr']`, `self.scale`."""
        wanted = parsed(path)
        if wanted is None:
            return []
        text = ast.dump(wanted)
        return [
            one for one in self.nodes if isinstance(one, type(wanted)) and ast.dump(one) == text
        ]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around it, the innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node


def parsed(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def definition_at(place: Place | None) -> Definition | None:
    """The function that begins at this line, with its decorators; None: not known."""
    if place is None:
        return None
    lines = linecache.getlines(place.file)[place.line - 1 :]
    try:
        block = inspect.getblock(lines)
    except (SyntaxError, tokenize.TokenError):
        return None
    found = _definition("".join(block))
    return found if found and _is_the_body(found.node, place.file) else None


def _is_the_body(node: _Function, file: str) -> bool:
    """Whether no decorator is between the function and tracehost: its code would read the arguments, too."""
    decorators = getattr(node, "decorator_list", [])
    if not decorators:
        return True
    text = ast.unparse(decorators[-1])
    if "tracehost" in text or text in ("staticmethod", "classmethod"):
        return True
    name = text.split("(")[0].split(".")[0]
    modules = [m for m in [*sys.modules.values()] if getattr(m, "__file__", None) == file]
    main = sys.modules.get("__main__")
    if main is not None and not hasattr(main, "__file__"):  # CPython removes it before exit
        modules.append(main)
    origins = [getattr(getattr(m, name, None), "__module__", None) or "" for m in modules]
    return any(one.split(".")[0] == "tracehost" for one in origins)


@functools.lru_cache(maxsize=64)
def _definition(text: str) -> Definition | None:
    """Of the text from the function's first line on. A lambda may be a part of its line."""
    nodes = ast.walk(ast.Module(_statements(textwrap.dedent(text)), []))
    functions = [node for node in nodes if isinstance(node, _Function) and _first_line(node) == 1]
    is_known = len(functions) == 1 or (functions and not isinstance(functions[0], ast.Lambda))
    return Definition(functions[0]) if is_known else None


def _first_line(node: _Function) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _statements(text: str) -> list[ast.stmt]:
    """Empty: it can't be read. A loop's or a call's first line alone is completed."""
    for whole in (text, f"{text.rstrip()} pass"):
        try:
            return ast.parse(whole).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return []


def expression(where: str, near: str) -> str:
    """The source of what needs a number at a line: `int(level)`. Empty: not known.

    Args:
        where: `net.py:12`.
        near: the file of the function, which is asked first.
    """
    name, _, line = where.partition(" ")[0].rpartition(":")
    if not line.isdigit():
        return ""
    files = [near, *(getattr(module, "__file__", None) or "" for module in [*sys.modules.values()])]
    for file in files:
        if file == name or file.endswith(os.sep + name):
            return _of_line(linecache.getline(file, int(line)).strip())
    return ""


def _of_line(line: str) -> str:
    for text in (line, f"{line} pass", f"if 1: pass\n{line} pass", f"({line}"):
        try:
            (*_, statement) = ast.parse(text).body
        except (SyntaxError, ValueError):
            continue
        made = _needed(statement)
        return ast.unparse(made) if made is not None else ""
    return ""


def _needed(statement: ast.stmt) -> ast.AST | None:
    """The condition; the index; what is returned or assigned."""
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return statement.test
    if isinstance(statement, ast.For):
        return statement.iter
    for node in ast.walk(statement):
        if isinstance(node, ast.IfExp):
            return node.test
        if isinstance(node, ast.comprehension):
            return node.iter
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant | ast.Slice):
            return node.slice
    return getattr(statement, "value", None)
