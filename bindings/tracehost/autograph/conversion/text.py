"""What a function's source holds at all, so that searches are made only where they can find something."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left

from .scopes import DEFINITIONS, bound_names, inner_blocks

# Builtins that read the caller's variables, and with how many arguments they don't.
FRAME_READERS = {"locals": 0, "vars": 0, "dir": 0, "eval": 1, "exec": 1}

_WORD = re.compile(r"\w+")
_BRANCH = re.compile(r"\b(if|while|for|and|or|assert|match)\b|<|>|==")


class Text:
    """Facts of one source text, whose lines are numbered as the file's."""

    def __init__(self, source: str) -> None:
        self.walrus = ":=" in source
        self.nonlocals = "nonlocal" in source
        self.yields = "yield" in source or "await" in source or "async" in source
        self.frames = any(name + "(" in source for name in FRAME_READERS)
        self.finals = "finally" in source
        self.deletes = "del " in source
        self.loops = "for" in source
        self.matches = "match" in source
        self.branches = _BRANCH.search(source) is not None
        self._source = source
        self._lines: dict[str, list[int]] | None = None

    def unsure(self, node: ast.FunctionDef, names: set[str]) -> set[str]:
        """Those of the function's variables that may be read before they are assigned.

        Generated functions would give such a read the error of a free variable. Sure is what a plain
        statement of the function's own block assigns before the name occurs anywhere else.
        """
        left = set(names)
        if not left:
            return left
        for statement in node.body:
            if not isinstance(statement, (ast.Assign, ast.AnnAssign, *_DEFINING)):
                continue
            for name in bound_names(statement):
                if name in left and self._is_first(name, node, statement):
                    left.discard(name)
        if self.deletes:
            left |= _deleted(node.body) & names
        return left

    def _is_first(self, name: str, node: ast.FunctionDef, statement: ast.stmt) -> bool:
        lines = self._mentions().get(name)
        if lines is None:  # written in another form of Unicode
            return False
        index = bisect_left(lines, node.body[0].lineno)
        if index < len(lines) and lines[index] < statement.lineno:
            return False
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.AnnAssign) and value is None:
            return False
        return value is None or not any(
            isinstance(n, ast.Name) and n.id == name for n in ast.walk(value)
        )

    def _mentions(self) -> dict[str, list[int]]:
        if self._lines is None:
            self._lines = {}
            for number, line in enumerate(self._source.split("\n"), 1):
                for word in set(_WORD.findall(line)):
                    self._lines.setdefault(word, []).append(number)
        return self._lines


_DEFINING = (ast.Import, ast.ImportFrom, *DEFINITIONS)


def _deleted(body: list[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.Delete):
            found.update(bound_names(statement))
        for block in inner_blocks(statement):
            found |= _deleted(block)
    return found
