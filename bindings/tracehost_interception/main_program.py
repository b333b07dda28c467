"""The program's own module: its functions are decorated as they are defined.

After its end it would be too late, and CPython has no hook between two statements. So a call is put behind
each statement of the module that binds a name that is asked for; files and lines stay as they were.
"""

from __future__ import annotations

import ast
import sys
from types import CodeType, TracebackType
from typing import Any

from .apply import replace_in
from .messages import did_you_mean, say
from .targets import Target

targets: list[Target] = []
was_run = False  # by the code made here


def script_code(path: str) -> CodeType:
    """The code of a script, which runs in `__main__` as `python script.py` has it."""
    from importlib.machinery import SourceFileLoader

    _hide_our_line()
    with open(path, "rb") as file:
        source = file.read()
    module = vars(sys.modules["__main__"])
    module.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    return _code(source, path)


def command_code(command: str) -> CodeType:
    """The code of `-c`."""
    _hide_our_line()
    return _code(command.encode("utf-8", "surrogateescape"), "<string>")


def module_code(loader: Any, name: str) -> CodeType | None:
    """The code of what `-m`, a folder or a zip runs."""
    source = loader.get_source(name)
    return loader.get_code(name) if source is None else _code(source, loader.get_filename(name))


def bound(root: str) -> None:
    """Called by the program itself: a name has been bound in it."""
    wanted = [target for target in targets if target.root == root]
    replace_in(sys.modules["__main__"], wanted, final=False)


def _code(source: bytes | str, file: str) -> CodeType:
    global was_run
    was_run = True
    tree = ast.parse(source, file)
    names = _Names()
    names.visit(tree)
    roots = {target.root for target in targets}
    _report_missing(roots - names.found, names)
    _Binder(roots if names.all_of_another else roots & names.found).visit(tree)
    return compile(tree, file, "exec", dont_inherit=True)


def _report_missing(missing: set[str], names: _Names) -> None:
    for target in targets:
        if target.root in missing and not names.all_of_another:
            target.met = True
            say(
                f"{target.text}: the program defines no '{target.root}'{did_you_mean(target.root, names.found)}"
            )


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _names_of(node: ast.AST) -> set[str]:
    """The names that this node itself binds."""
    if isinstance(node, _DEFINITIONS):
        return {node.name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {a.asname or a.name.partition(".")[0] for a in node.names}
    return set()


class _Names(ast.NodeVisitor):
    """All that the module itself binds, and what its functions bind as globals."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    @property
    def all_of_another(self) -> bool:
        return "*" in self.found  # from module import *

    def generic_visit(self, node: ast.AST) -> None:
        self.found |= _names_of(node)
        super().generic_visit(node)

    def visit_FunctionDef(self, node: Any) -> None:
        declared = (n.names for n in ast.walk(node) if isinstance(n, ast.Global))
        self.found |= _names_of(node).union(*declared)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Binds nothing here."""


class _Binder(ast.NodeTransformer):
    def __init__(self, roots: set[str]) -> None:
        self._roots = roots

    def visit(self, node: ast.AST) -> Any:
        """A statement, with a call behind it for each name that it binds."""
        if isinstance(node, ast.expr):
            return node  # nothing in it is a statement
        if not isinstance(node, ast.stmt):
            return self.generic_visit(node)
        names = self._own_names(node)
        if "*" in names:
            names = self._roots
        if not isinstance(node, _DEFINITIONS):
            self.generic_visit(node)
        return [node, *(_call(name, node) for name in sorted(names & self._roots))]

    def _own_names(self, statement: ast.stmt) -> set[str]:
        if isinstance(statement, _DEFINITIONS):
            return _names_of(statement)
        names = _names_of(statement)
        for part in ast.iter_child_nodes(statement):
            if not isinstance(part, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                names = names.union(*map(_names_of, ast.walk(part)))
        return names


def _call(name: str, after: ast.stmt) -> ast.stmt:
    statement = ast.parse(f"__import__('tracehost_interception').bound({name!r})").body[0]
    for node in ast.walk(statement):
        if "lineno" in node._attributes:
            at = {"lineno": after.lineno, "end_lineno": after.lineno}
            vars(node).update(at, col_offset=after.col_offset, end_col_offset=after.col_offset)
    return statement


def _hide_our_line() -> None:
    """The line of -c that runs the program is no part of its tracebacks, as long as Python itself prints
    them."""
    before = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if traceback is not None and traceback.tb_frame.f_code.co_filename == "<string>":
            traceback = traceback.tb_next
        while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
            traceback = traceback.tb_next
        if isinstance(error, SyntaxError) and traceback and _is_parser(traceback):
            traceback = None
        before(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = excepthook


def _is_parser(traceback: TracebackType) -> bool:
    return traceback.tb_next is None and traceback.tb_frame.f_code.co_filename == ast.__file__
