"""What the text of a function says: which parameters its body reads, and what it does with a number.

The text is read where a warning needs it, never by a call. A body that Python code made, or whose file has gone, has
none: then nothing is known of it.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
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
    return _definition(place.file, place.line, "".join(linecache.getlines(place.file)))


@functools.lru_cache(maxsize=16)
def _definition(file: str, line: int, text: str) -> Definition | None:
    found: list[_Function] = []
    for node in ast.walk(_tree(text)):
        if (isinstance(node, ast.Lambda) and node.lineno == line) or (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and line
            in (
                node.lineno,
                *(one.lineno for one in node.decorator_list[:1]),
            )
        ):
            found.append(node)
    return Definition(found[0]) if len(found) == 1 else None


@functools.lru_cache(maxsize=4)
def _tree(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


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
