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
            out += [nodes.placed(s, statement) for s in self.hoists + made]
            self.hoists = outer
        return out

    def stmt(self, node: ast.stmt) -> list[ast.stmt]:
        handler = self.handlers.get(type(node))
        return [self.generic(node)] if handler is None else handler(self, node)

    # -- blocks that become functions

    def if_(self, node: Any) -> list[ast.stmt]:
        made = hasattr(node, "ag_made")
        plain = not made and is_plain(node.test)
        test = node.test if made else self.condition(node.test)
        if plain:
            node.test = test
            node.body = self.block(node.body) or [nodes.placed(ast.Pass(), node)]
            node.orelse = self.block(node.orelse)
            return [node]
        state = StateFunctions(node.ag_state, self.scope)
        body, orelse = node.ag_sides
        out = [self._function("ag__body", node.body, body, state)]
        other: ast.expr = nodes.operator("nothing")
        if node.orelse:
            out.append(self._function("ag__orelse", node.orelse, orelse, state))
            other = nodes.name("ag__orelse")
        rest = getattr(node, "ag_rest", -1)
        used = getattr(node, "ag_used", node.ag_state)
        dead = [n for n in node.ag_state if n.isidentifier() and n[:4] != "ag__" and n not in used]
        more: list[ast.expr] = [ast.Constant(rest), nodes.names_tuple(dead)] if dead else []
        if not dead and rest >= 0:
            more = [ast.Constant(rest)]
        return out + self._call("if_stmt", [test, nodes.name("ag__body"), other], state, *more)

    def _function(
        self, name: str, body: list[ast.stmt], assigned: Assigned, state: StateFunctions
    ) -> ast.stmt:
        first = state.declarations(assigned)
        return nodes.define(name, nodes.no_arguments(), first + self.block(body))

    def _call(
        self, operator: str, first: list[ast.expr], state: StateFunctions, *more: ast.expr
    ) -> list[ast.stmt]:
        """Of the statement's operator, with the functions that read and write the state."""
        define, setter = state.setter()
        arguments = [*first, state.getter(), setter, state.names(), *more]
        return [*define, ast.Expr(nodes.operation(operator, *arguments))]

    def while_(self, node: Any) -> list[ast.stmt]:
        options = self._options(node)
        state = StateFunctions(node.ag_state, self.scope)
        test = self._test(node)
        body = self._function("ag__body", node.body, node.ag_state, state)
        first: list[ast.expr] = [nodes.name("ag__test"), nodes.name("ag__body")]
        return [test, body, *self._call("while_stmt", first, state, _used(node), options)]

    def _test(self, node: Any) -> ast.stmt:
        names = walrus_names([node.test]) if self.has_walrus else []
        declared = declarations(names, self.scope)
        outer, self.hoists = self.hoists, []
        if node.ag_flags:
            user = self.deferred([node.test], lambda: self.condition(node.test))
            test: ast.expr = nodes.operation("and_test", none_of(node.ag_flags), user)
        else:
            test = self.condition(node.test)
        result = nodes.placed(ast.Return(test), node.test)
        body = [*declared, *self.hoists, result]
        self.hoists = outer
        return nodes.define("ag__test", nodes.no_arguments(), body)

    def for_(self, node: Any) -> list[ast.stmt]:
        node.iter = self.gone_over(node.iter)
        if node.ag_plain:
            node.target = self.expr(node.target)
            node.body = self.block(node.body)
            return [node]
        options = self._options(node)
        state = StateFunctions(node.ag_state, self.scope)
        take = ast.Assign([self.expr(node.target)], nodes.name("ag__item"))
        first = [*state.declarations(node.ag_state), nodes.placed(take, node.target)]
        body = nodes.define(
            "ag__body", nodes.one_argument("ag__item"), first + self.block(node.body)
        )
        extra = nodes.thunk(none_of(node.ag_flags)) if node.ag_flags else ast.Constant(None)
        given = [node.iter, extra, nodes.name("ag__body")]
        return [body, *self._call("for_stmt", given, state, _used(node), options)]

    def _options(self, node: Any) -> ast.expr:
        """`set_loop_options(...)`, first in the body, is taken out and passed to the operator; None without it."""
        for index, first in enumerate(node.body):
            if isinstance(first, ast.Assign) and _is_flag(first.targets[0]):
                continue
            call = first.value if isinstance(first, ast.Expr) else None
            if isinstance(call, ast.Call) and nodes.last_name(call.func) == "set_loop_options":
                node.body = node.body[:index] + node.body[index + 1 :]
                call.func = nodes.operator("loop_options")
                call.args = [self.expr(_named_pairs(a)) for a in call.args]
                for keyword in call.keywords:
                    keyword.value = self.expr(_named_pairs(keyword.value))
                return call
            break
        return ast.Constant(None)


def _used(node: Any) -> ast.expr:
    """Of the loop's variables, those that are read behind it."""
    return nodes.names_tuple([name for name in node.ag_state if name in node.ag_used])


def _is_flag(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id.startswith("ag__")


def _named_pairs(node: ast.expr) -> ast.expr:
    """`[(x, shape)]` as `{"x": shape}`: a loop's variables are known by name."""
    pairs = getattr(node, "elts", None)
    if not isinstance(node, (ast.List, ast.Tuple)) or not pairs:
        return node
    if not all(isinstance(p, (ast.Tuple, ast.List)) and len(p.elts) == 2 for p in pairs):
        return node
    keys = [ast.Constant(ast.unparse(p.elts[0])) for p in pairs]
    return nodes.placed(ast.Dict(keys, [p.elts[1] for p in pairs]), node)
