"""if, while and for: calls of operators, with their blocks as functions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, ClassVar

from . import nodes
from .blocks import Assigned, StateFunctions, declarations
from .expressions import Expressions
from .lower import is_plain, none_of
from .scopes import walrus_names


class Control(Expressions):
    """The statements that branch; `handlers` has those of the class that knows the others."""

    handlers: ClassVar[dict[type, Callable[[Any, Any], list[ast.stmt]]]] = {}

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            outer, self.hoists = self.hoists, []
            made = self.stmt(statement)
            out += self.hoists
            out += made
            self.hoists = outer
        return out

    def stmt(self, node: ast.stmt) -> list[ast.stmt]:
        handler = self.handlers.get(type(node))
        if handler is not None:
            return handler(self, node)
        return [self.generic(node)]

    # -- blocks that become functions

    def if_(self, node: Any) -> list[ast.stmt]:
        made = hasattr(node, "ag_made")
        plain = not made and is_plain(node.test)
        test = node.test if made else self.condition(node.test)
        if plain:
            node.test = test
            node.body = self.block(node.body) or [ast.Pass(**nodes.first_line(node))]
            node.orelse = self.block(node.orelse)
            return [node]
        at = nodes.first_line(node)
        state = StateFunctions(node.ag_state, self.scope, self.load, at)
        body, orelse = node.ag_sides
        out: list[ast.stmt] = [self._function("ag__body", node.body, body, state, at)]
        if node.orelse:
            out.append(self._function("ag__orelse", node.orelse, orelse, state, at))
            other: ast.expr = nodes.name("ag__orelse", at)
        else:
            other = nodes.operator("nothing", at)
        define, setter = state.setter()
        arguments = [test, nodes.name("ag__body", at), other, state.getter(), setter, state.names()]
        return [*out, *define, ast.Expr(nodes.operation("if_stmt", arguments, at), **at)]

    def _function(
        self,
        name: str,
        body: list[ast.stmt],
        assigned: Assigned,
        state: StateFunctions,
        at: nodes.Where,
        arguments: ast.arguments | None = None,
        before: Callable[[], list[ast.stmt]] | None = None,
    ) -> ast.stmt:
        first = state.declarations(assigned)
        if before is not None:
            first += before()
        return nodes.define(name, arguments or nodes.no_arguments(), first + self.block(body), at)

    def while_(self, node: Any) -> list[ast.stmt]:
        at = nodes.first_line(node)
        options = self._options(node, at)
        state = StateFunctions(node.ag_state, self.scope, self.load, at)
        test = self._test(node, at)
        body = self._function("ag__body", node.body, node.ag_state, state, at)
        define, setter = state.setter()
        arguments = [
            nodes.name("ag__test", at),
            nodes.name("ag__body", at),
            state.getter(),
            setter,
            state.names(),
            options,
        ]
        call = ast.Expr(nodes.operation("while_stmt", arguments, at), **at)
        return [test, body, *define, call]

    def _test(self, node: Any, at: nodes.Where) -> ast.stmt:
        names = walrus_names([node.test]) if self.has_walrus else []
        declared = declarations(names, self.scope, at)
        outer, self.hoists = self.hoists, []
        if node.ag_flags:
            user = self.deferred([node.test], lambda: self.condition(node.test), at)
            test: ast.expr = nodes.operation("and_test", [none_of(node.ag_flags, at), user], at)
        else:
            test = self.condition(node.test)
        body = [*declared, *self.hoists, ast.Return(test, **nodes.where(node.test))]
        self.hoists = outer
        return nodes.define("ag__test", nodes.no_arguments(), body, at)

    def for_(self, node: Any) -> list[ast.stmt]:
        node.iter = self.expr(node.iter)
        if node.ag_plain:
            node.target = self.expr(node.target)
            node.body = self.block(node.body)
            return [node]
        at = nodes.first_line(node)
        options = self._options(node, at)
        state = StateFunctions(node.ag_state, self.scope, self.load, at)
        target_at = nodes.where(node.target)

        def take() -> list[ast.stmt]:
            item = nodes.name("ag__item", target_at)
            return [ast.Assign([self.expr(node.target)], item, **target_at)]

        body = self._function(
            "ag__body",
            node.body,
            node.ag_state,
            state,
            at,
            nodes.one_argument("ag__item", at),
            take,
        )
        define, setter = state.setter()
        extra: ast.expr = nodes.constant(None, at)
        if node.ag_flags:
            extra = nodes.thunk(none_of(node.ag_flags, at), at)
        arguments = [
            node.iter,
            extra,
            nodes.name("ag__body", at),
            state.getter(),
            setter,
            state.names(),
            nodes.names_tuple([name for name in node.ag_state if name in node.ag_used], at),
            options,
        ]
        return [body, *define, ast.Expr(nodes.operation("for_stmt", arguments, at), **at)]

    def _options(self, node: Any, at: nodes.Where) -> ast.expr:
        """`set_loop_options(...)`, first in the body, is taken out and passed to the operator."""
        for index, first in enumerate(node.body):
            if isinstance(first, ast.Assign) and _is_flag(first.targets[0]):
                continue
            call = first.value if isinstance(first, ast.Expr) else None
            if isinstance(call, ast.Call) and nodes.last_name(call.func) == "set_loop_options":
                node.body = node.body[:index] + node.body[index + 1 :]
                arguments = [self.expr(_named_pairs(a)) for a in call.args]
                made = nodes.operation("loop_options", arguments, nodes.where(call))
                made.keywords = [
                    ast.keyword(k.arg, self.expr(_named_pairs(k.value)), **nodes.where(k.value))
                    for k in call.keywords
                ]
                return made
            break
        return nodes.operator("NO_OPTIONS", at)


def _is_flag(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id.startswith("ag__")


def _named_pairs(node: ast.expr) -> ast.expr:
    """`[(x, shape)]` as `{"x": shape}`: a loop's variables are known by name."""
    pairs = getattr(node, "elts", None)
    if not isinstance(node, (ast.List, ast.Tuple)) or not pairs:
        return node
    if not all(isinstance(p, (ast.Tuple, ast.List)) and len(p.elts) == 2 for p in pairs):
        return node
    at = nodes.where(node)
    keys = [nodes.constant(ast.unparse(p.elts[0]), at) for p in pairs]
    return ast.Dict(keys, [p.elts[1] for p in pairs], **at)
