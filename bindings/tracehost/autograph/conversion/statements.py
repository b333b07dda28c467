"""Statements, and the functions and classes that they define."""

from __future__ import annotations

import ast
import itertools
from typing import Any

from . import nodes
from .blocks import collect
from .control import Control
from .expressions import HANDLERS, shown
from .liveness import read_first
from .lower import Lowering, is_plain
from .match import lowered as lowered_matches
from .rejection import decorated_do_not_convert, rejection
from .scopes import (
    Scope,
    class_scope,
    function_scope,
    names_bound_in,
    nonlocal_names,
    parameters_of,
    walrus_names,
)
from .text import Text
from .undefined import RETURN_FLAG, RETURN_VALUE, SUBJECT

# A conversion makes its condition a part of the graph, and its result a traced number.
_OF_C_CODE = {"__bool__", "__contains__", "__float__", "__hash__", "__index__", "__int__", "__len__", "__length_hint__",
              "__next__"}  # fmt: skip


class Statements(Control):
    """One function's body, and those of functions defined in it (each by an object of its own)."""

    def __init__(self, scope: Scope, text: Text, left: list[tuple[int, int, str]]) -> None:
        super().__init__(scope, text.walrus)
        self.text = text
        self.left = left

    def body(self, node: ast.FunctionDef) -> list[ast.stmt]:
        """The converted body, with the variables of its blocks declared first."""
        scope = self.scope
        if self.text.nonlocals:
            scope.shared = {n for n in nonlocal_names(node.body) if scope.reaches(n)}
            if scope.parent is not None:
                scope.shared |= scope.parent.shared - scope.locals
        has_docstring = ast.get_docstring(node, clean=False) is not None
        docstring, statements = node.body[:has_docstring], node.body[has_docstring:]
        if self.text.matches:
            statements = lowered_matches(statements, itertools.count(1))
        lowering = Lowering(statements)
        last = node.body[-1]
        lowered = lowering.run(statements, last.end_lineno or last.lineno)
        if lowering.returns:
            scope.state |= {RETURN_FLAG, RETURN_VALUE}
        scope.state |= names_bound_in(lowering.dropped) & scope.locals
        if self.text.branches:
            early = read_first(lowered, scope.globals | scope.nonlocals | scope.shared)
            scope.state |= early & scope.locals - set(scope.parameters)
        if self.text.walrus:
            scope.state.update(walrus_names(node.body))
        collect(lowered, scope, self.text.walrus)
        scope.locals.update(name for name in scope.state if name.startswith("ag__"))
        scope.readers.clear()
        body = self.block(lowered)
        return docstring + [nodes.placed(s, node) for s in self._declared()] + body

    def _declared(self) -> list[ast.stmt]:
        scope = self.scope
        first: list[ast.stmt] = nodes.declare(ast.Global, sorted(scope.globals))
        first += nodes.declare(ast.Nonlocal, sorted(scope.nonlocals))
        for name in sorted(scope.state & scope.locals - set(scope.parameters)):
            is_flag = name.startswith("ag__") and not name.startswith((RETURN_VALUE, SUBJECT))
            value = ast.Constant(False) if is_flag else nodes.undefined(name)
            first.append(nodes.assign(name, value))
        return first

    # -- statements that stay, with something in them changed

    def assign(self, node: ast.Assign) -> list[ast.stmt]:
        if getattr(node, "ag_dead", False):
            return [ast.Pass()]
        node.value = self.expr(node.value)
        node.targets = [self.expr(target) for target in node.targets]
        return [node]

    def ann_assign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        """Annotations in a function aren't evaluated, and can't stand beside nonlocal."""
        if node.value is not None:
            return self.assign(ast.Assign([node.target], node.value))
        if isinstance(node.target, ast.Name):
            return [ast.Pass()] if node.target.id in self.scope.state else [node]
        if isinstance(node.target, ast.Attribute):
            return [ast.Expr(self.expr(node.target.value))]
        return [node]

    def aug_assign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """`x += 1` of a variable that may be Undefined: it is read first, with its error."""
        before: list[ast.stmt] = []
        target = node.target
        if isinstance(target, ast.Name) and self.scope.reader(target.id) is not None:
            before = [nodes.assign(target.id, self.expr(nodes.name(target.id)))]
        return [*before, self.generic(node)]

    def delete(self, node: ast.Delete) -> list[ast.stmt]:
        """`del x` of a variable that blocks assign leaves it as before its first assignment."""
        out: list[ast.stmt] = []
        for target in node.targets:
            made: list[ast.stmt] = [ast.Delete([self.expr(target)])]
            if isinstance(target, ast.Name) and self._holds_undefined(target.id):
                made = [
                    ast.Expr(self.expr(nodes.name(target.id))),
                    nodes.assign(target.id, nodes.undefined(target.id)),
                ]
            out += [nodes.placed(s, target) for s in made]
        return out

    def _holds_undefined(self, name: str) -> bool:
        owner = self.scope.owner(name)
        return owner is not None and name in owner.state and owner.kind in ("function", "lambda")

    def assert_(self, node: ast.Assert) -> list[ast.stmt]:
        if not __debug__:
            return [ast.Pass()]
        if is_plain(node.test):
            return [self.generic(node)]
        test = self.condition(node.test)
        message: ast.expr = ast.Constant(None)
        if node.msg is not None:
            original = node.msg
            message = self.deferred([original], lambda: shown(self.expr(original)))
        return [ast.Expr(nodes.operation("assert_stmt", test, message))]

    def raise_(self, node: ast.Raise) -> list[ast.stmt]:
        self.raised = node.exc
        return [self.generic(node)]

    def with_(self, node: ast.With) -> list[ast.stmt]:
        node.items = [self.expr(item) for item in node.items]
        node.body = self.block(node.body)
        return [node]

    def try_(self, node: ast.Try) -> list[ast.stmt]:
        node.body = self.block(node.body)
        for handler in node.handlers:
            if handler.type is not None:
                handler.type = self.expr(handler.type)
            handler.body = self._handler_body(handler)
        node.orelse = self.block(node.orelse)
        node.finalbody = self.block(node.finalbody)
        return [node]

    def _handler_body(self, handler: ast.ExceptHandler) -> list[ast.stmt]:
        """`except E as e` unbinds e at its end: for a variable that blocks assign, by hand."""
        body = self.block(handler.body)
        name = handler.name
        if name is None or not self._holds_undefined(name):
            return body
        handler.name = "ag__error"
        take = nodes.assign(name, nodes.name("ag__error"))
        unbind = nodes.assign(name, nodes.undefined(name))
        return [take, ast.Try(body, [], [], [unbind])]

    def match(self, node: ast.Match) -> list[ast.stmt]:
        """Of patterns without guards, of which none asks for the value of what is traced (`match.py`)."""
        node.subject = self.expr(node.subject)
        for case in node.cases:
            case.body = self.block(case.body) or [nodes.placed(ast.Pass(), case.pattern)]
        return [node]

    def declared_at_the_top(self, node: ast.stmt) -> list[ast.stmt]:
        return [ast.Pass()]

    def return_(self, node: ast.Return) -> list[ast.stmt]:
        if node.value is not None and not hasattr(node, "ag_made"):
            node.value = self.expr(node.value)
        return [node]

    # -- definitions

    def function(self, node: Any) -> list[ast.stmt]:
        node.decorator_list = [self.expr(d) for d in node.decorator_list]
        self.defaults(node.args)
        self._annotations(node)
        scope = function_scope(node, self.scope, self.has_walrus)
        around = self.scope
        scope.has_class = around.kind == "class" or any(s.has_class for s in around.outward())
        why = rejection(node, self.text)
        if why is None and around.kind == "class" and node.name in _OF_C_CODE:
            why = f"C code calls {node.name}(), and takes a plain value or an exception from it"
        if why is None and decorated_do_not_convert(node):
            why = "it is marked do_not_convert"
        inner = Statements(scope, self.text, self.left)
        if why is None and not self.plain:
            node.body = inner.body(node)
        else:
            self.left.append((node.lineno, node.end_lineno, why or "what is around it is left"))
            inner.plain = True
            node.body = [inner.expr(s) for s in node.body]
        return [node]

    def _annotations(self, node: Any) -> None:
        for argument in parameters_of(node.args):
            if argument.annotation is not None:
                argument.annotation = self._read_only(argument.annotation)
        if node.returns is not None:
            node.returns = self._read_only(node.returns)

    def _read_only(self, node: ast.expr) -> ast.expr:
        plain, self.plain = self.plain, True
        made = self.expr(node)
        self.plain = plain
        return made

    def class_(self, node: ast.ClassDef) -> list[ast.stmt]:
        """A class body is left as it is, its methods are converted."""
        node.decorator_list = [self.expr(d) for d in node.decorator_list]
        node.bases = [self.expr(base) for base in node.bases]
        for keyword in node.keywords:
            keyword.value = self.expr(keyword.value)
        scope = class_scope(node, self.scope, self.has_walrus)
        inner = Statements(scope, self.text, self.left)
        inner.plain = True
        inner.methods = not self.plain
        node.body = [inner.expr(s) for s in node.body]
        self.left.append((node.lineno, node.end_lineno or 0, "the body of a class stays Python's"))
        return [node]

    methods = False  # in a class body: the functions of which are converted

    def left_function(self, node: Any) -> ast.stmt:
        """In code that stays, where only reads of variables that may be Undefined change."""
        plain, self.plain = self.plain, self.plain and not self.methods
        made = self.function(node)[0]
        self.plain = plain
        return made

    def left_class(self, node: ast.ClassDef) -> ast.stmt:
        return self.class_(node)[0]


def outer_function(
    node: ast.FunctionDef | ast.Lambda, text: Text, free: tuple[str, ...]
) -> tuple[ast.AST, list[tuple[int, int, str]]]:
    """Convert a function that stands alone; `free`: its closure's variables."""
    left: list[tuple[int, int, str]] = []
    if isinstance(node, ast.Lambda):
        outer = Scope(None, "function")
        made = Statements(outer, text, left)
        made.in_statement = False
        return made.lambda_(node), left
    scope = function_scope(node, None, text.walrus)
    scope.has_class = "__class__" in free
    scope.free = frozenset(free)
    node.body = Statements(scope, text, left).body(node)
    return node, left


Statements.handlers = {
    ast.If: Statements.if_,
    ast.While: Statements.while_,
    ast.For: Statements.for_,
    ast.Assign: Statements.assign,
    ast.AnnAssign: Statements.ann_assign,
    ast.AugAssign: Statements.aug_assign,
    ast.Delete: Statements.delete,
    ast.Assert: Statements.assert_,
    ast.Raise: Statements.raise_,
    ast.With: Statements.with_,
    ast.Try: Statements.try_,
    ast.TryStar: Statements.try_,
    ast.Match: Statements.match,
    ast.Global: Statements.declared_at_the_top,
    ast.Nonlocal: Statements.declared_at_the_top,
    ast.Return: Statements.return_,
    ast.FunctionDef: Statements.function,
    ast.AsyncFunctionDef: Statements.function,
    ast.ClassDef: Statements.class_,
}
HANDLERS |= {
    ast.FunctionDef: Statements.left_function,
    ast.AsyncFunctionDef: Statements.left_function,
    ast.ClassDef: Statements.left_class,
}
