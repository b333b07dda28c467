"""Expressions: each node that reads a truth value or calls something becomes an operator's call.

The tree is changed in place: it was parsed for this conversion alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from . import nodes
from .asking import handed, is_asking
from .blocks import StateFunctions, declarations
from .lower import is_plain
from .scopes import Scope, comprehension_scope, function_scope, walrus_names

SIGNS: dict[type, str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}

# These read the frame that calls them, or can't be anything that autograph converts.
_DIRECT_CALLS = {"issubclass", "super", "callable", "getattr"}


class Expressions:
    """One function's expressions. `hoists` takes functions that must be defined before the statement."""

    def __init__(self, scope: Scope, has_walrus: bool) -> None:
        self.scope = scope
        self.raised: ast.expr | None = None  # what the statement raises
        self._gone_over: set[ast.expr] = set()  # what a loop iterates, and len() counts
        self.has_walrus = has_walrus
        self.in_statement = True  # not in lambdas and comprehensions: no definition stands before
        self.hoists: list[ast.stmt] = []
        # first line, last line, why it was left as it is
        self.left: list[tuple[int, int, str]] = []
        self.plain = False  # only reads of variables change: generators and the like
        self._thunks = 0

    def expr(self, node: Any) -> Any:
        kind = type(node)
        if kind is ast.Constant:
            return node
        handler = HANDLERS.get(kind)
        if handler is not None:
            return nodes.placed(handler(self, node), node)
        return self.generic(node)

    def generic(self, node: Any) -> Any:
        for name in nodes.children(type(node)):
            value = getattr(node, name, None)
            if type(value) is list:
                value[:] = [self.expr(v) if isinstance(v, ast.AST) else v for v in value]
            elif isinstance(value, ast.AST):
                setattr(node, name, self.expr(value))
        return node

    # -- reads

    def name(self, node: ast.Name) -> ast.expr:
        reader = self.scope.reader(node.id) if type(node.ctx) is ast.Load else None
        if not self.in_statement:
            node.id = self.scope.spelling(node.id)
        return node if reader is None else nodes.operation(reader, node)

    def subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic(node)
        stores = type(node.ctx) is ast.Store and type(node.slice) is ast.Tuple
        if not self.plain and (stores or not _is_fixed(node.slice)):
            node.value = nodes.placed(nodes.operation("subscripted", node.value), node.value)
        return node

    def bin_op(self, node: ast.BinOp) -> ast.expr:
        """Down the left side without recursion: sums may have hundreds of terms."""
        inner = node
        while True:
            inner.right = self.expr(inner.right)
            if isinstance(inner.op, ast.Mod) and not self.plain and _is_text(inner.left):
                inner.right = nodes.placed(nodes.operation("in_text", inner.right), inner.right)
            if type(inner.left) is not ast.BinOp:
                inner.left = self.expr(inner.left)
                return node
            inner = inner.left

    # -- truth values

    def condition(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp):
            return nodes.placed(self.bool_op(node, "_test"), node)
        if isinstance(node, ast.UnaryOp):
            return nodes.placed(self.unary_op(node, "not_"), node)
        return self.expr(node)

    def bool_op(self, node: ast.BoolOp, use: str = "") -> ast.expr:
        """`use`: "_test" where the operands' truth is all that is asked for."""
        if self.plain or is_plain(node):
            return self.generic(node)
        operation = ("and_" if isinstance(node.op, ast.And) else "or_") + use.removeprefix("_")
        values = node.values
        plain = 0  # leading operands that are Python's: `y is None or t > 0`
        while plain < len(values) - 1 and is_plain(values[plain]):
            plain += 1
        if plain == len(values) - 1:
            return self.generic(node)
        if self._cannot_defer(values[plain + 1 :]):
            return self._leave(node)
        result = self._chain(operation, values[plain:])
        if not plain:
            return result
        node.values = [self.expr(v) for v in values[:plain]] + [result]
        return node

    def _chain(self, operation: str, values: list[ast.expr]) -> ast.expr:
        operand = self.condition if operation.endswith("test") else self.expr
        first = operand(values[0])
        if len(values) == 1:
            return first
        names = self._walrus_names(values[1:])
        rest = self.deferred(values[1:], lambda: self._chain(operation, values[1:]))
        return self._assigning(nodes.operation(operation, first, rest), names)

    def unary_op(self, node: ast.UnaryOp, negation: str = "not_value") -> ast.expr:
        if self.plain or not isinstance(node.op, ast.Not) or is_plain(node.operand):
            return self.generic(node)
        return nodes.operation(negation, self.condition(node.operand))

    def compare(self, node: ast.Compare) -> ast.expr:
        if self.plain or (len(node.ops) == 1 and not _asks_of_number(node)):
            return self.generic(node)
        if self._cannot_defer(node.comparators[1:]):
            return self._leave(node)
        names = self._walrus_names(node.comparators[1:])
        operands: list[ast.expr] = [self.expr(node.left)]
        for index, (op, right) in enumerate(zip(node.ops, node.comparators)):
            operands.append(ast.Constant(SIGNS[type(op)]))
            if index == 0:
                operands.append(self.expr(right))
            else:
                operands.append(self.deferred([right], lambda right=right: self.expr(right)))
        return self._assigning(nodes.operation("compare", *operands), names)

    def if_exp(self, node: ast.IfExp) -> ast.expr:
        if self.plain or is_plain(node.test):
            return self.generic(node)
        if self._cannot_defer([node.body, node.orelse]):
            return self._leave(node)
        originals = [node.body, node.orelse]
        names = self._walrus_names(originals)
        test = self.condition(node.test)
        then, orelse = (self.deferred([x], lambda x=x: self.expr(x)) for x in originals)
        return self._assigning(nodes.operation("if_exp", test, then, orelse), names)

    def _walrus_names(self, values: list[ast.expr]) -> list[str]:
        return list(dict.fromkeys(walrus_names(values))) if self.has_walrus else []

    def _cannot_defer(self, values: list[ast.expr]) -> bool:
        return not self.in_statement and bool(self._walrus_names(values))

    def _assigning(self, operation: ast.Call, names: list[str]) -> ast.Call:
        """What := assigns in the thunks is the state of the operation, as it is of an if."""
        if names:
            state = StateFunctions(dict.fromkeys(names), self.scope)
            hoists, setter = state.setter()
            self._thunks += 1
            for hoist in hoists:  # other operations of the statement have setters, too
                hoist.name = setter.id = f"ag__set_state_{self._thunks}"  # type: ignore[attr-defined]
                self.hoists.append(hoist)
            parts: list[ast.expr] = [state.getter(), setter, state.names()]
            operation.keywords = [ast.keyword("variables", ast.Tuple(parts, nodes.LOAD))]
        return operation

    def deferred(self, originals: list[ast.expr], make: Callable[[], ast.expr]) -> ast.expr:
        """A thunk: a lambda, or a function defined before the statement where := assigns in it."""
        names = self._walrus_names(originals)
        if not names:
            return nodes.thunk(make())
        outer, self.hoists = self.hoists, []
        value = make()
        inner, self.hoists = self.hoists, outer
        self._thunks += 1
        name = f"ag__value_{self._thunks}"
        body = [*declarations(names, self.scope), *inner, ast.Return(value)]
        hoist = nodes.define(name, nodes.no_arguments(), body)
        self.hoists.append(nodes.placed(hoist, originals[0]))
        return nodes.name(name)

    def _leave(self, node: ast.expr) -> ast.expr:
        why = "its := stands where no statement can come before"
        self.left.append((node.lineno, node.end_lineno or node.lineno, why))
        return self.generic(node)

    # -- calls

    def gone_over(self, node: ast.expr) -> ast.expr:
        """What a `for` goes over: only there a range(), enumerate() or zip() may be the graph's."""
        self._gone_over.add(node)
        return self.expr(node)

    def call(self, node: ast.Call) -> ast.expr:
        if self.plain:
            return self.generic(node)
        function = node.func
        if isinstance(function, ast.Name) and function.id in _DIRECT_CALLS:
            if function.id == "super" and not node.args and not node.keywords:
                self._explicit_super(node)
            return self.generic(node)
        over = node in self._gone_over
        if (over and _passes_items(function)) or _is_name(function, "len"):
            self._gone_over.update(node.args)
        asking = is_asking(node)
        if asking:
            self._gone_over.add(node.args[0].generators[0].iter)  # type: ignore[attr-defined]
        self.generic(node)
        if asking:
            node.args = [handed(function, node.args[0])]
        raises = node is self.raised
        file = _file_of(node)
        shows = raises or _may_show(function)
        if shows:
            node.args = [shown(a) for a in node.args]
            for keyword in node.keywords:
                keyword.value = shown(keyword.value)
        operation = (
            "call_raised" if raises else "call_shown" if shows else "call_over" if over else "call"
        )
        given = [node.func] if operation != "call_shown" or file is None else [node.func, file]
        node.func = nodes.placed(nodes.operation(operation, *given), function)
        return node

    def _explicit_super(self, node: ast.Call) -> None:
        """super() finds the class and the object in the function's own frame: generated ones have none."""
        scope = next((s for s in self.scope.outward() if s.kind == "function"), None)
        if scope is not None and scope.has_class and scope.first_parameter is not None:
            node.args = [nodes.name("__class__"), nodes.name(scope.first_parameter)]

    # -- scopes of their own

    def lambda_(self, node: ast.Lambda) -> ast.expr:
        self.defaults(node.args)
        outer, in_statement = self.scope, self.in_statement
        plain = self.plain
        self.scope = function_scope(node, outer, self.has_walrus)
        self.in_statement = False
        self.plain = plain or _yields(node.body)
        node.body = self.expr(node.body)
        self.scope, self.in_statement, self.plain = outer, in_statement, plain
        return node

    def defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.expr(d) for d in arguments.defaults]
        arguments.kw_defaults = [None if d is None else self.expr(d) for d in arguments.kw_defaults]

    def comprehension(self, node: Any) -> ast.expr:
        """The iteration stays Python's; what is computed in it is converted."""
        generators = node.generators
        outer, in_statement = self.scope, self.in_statement
        inner = comprehension_scope(node, outer)
        generators[0].iter = self.expr(generators[0].iter)
        self.scope, self.in_statement = inner, False
        for index, generator in enumerate(generators):
            generator.target = self.expr(generator.target)
            if index:
                generator.iter = self.expr(generator.iter)
            generator.ifs = [self.expr(test) for test in generator.ifs]
            for test in generator.ifs:
                why = "the condition of a comprehension stays Python's: write the loop out"
                self.left.append((test.lineno, test.end_lineno or test.lineno, why))
        for name in ("key", "value", "elt"):
            part = getattr(node, name, None)
            if part is not None:
                setattr(node, name, self.expr(part))
        self.scope, self.in_statement = outer, in_statement
        return node


def _is_fixed(key: ast.expr) -> bool:
    """Whether no traced tensor can be in a key: `x[0]`, `x[-1]`, `x[:, 1:]`."""
    if isinstance(key, ast.Tuple):
        return all(_is_fixed(k) for k in key.elts)
    if isinstance(key, ast.Slice):
        return all(k is None or _is_fixed(k) for k in (key.lower, key.upper, key.step))
    if isinstance(key, ast.UnaryOp):
        return _is_fixed(key.operand)
    return isinstance(key, ast.Constant)


def _yields(body: ast.expr) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in ast.walk(body))


# Of the nodes that change. statements.py adds definitions in code that stays.
HANDLERS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Name: Expressions.name,
    ast.Subscript: Expressions.subscript,
    ast.BinOp: Expressions.bin_op,
    ast.BoolOp: Expressions.bool_op,
    ast.UnaryOp: Expressions.unary_op,
    ast.Compare: Expressions.compare,
    ast.IfExp: Expressions.if_exp,
    ast.Call: Expressions.call,
    ast.Lambda: Expressions.lambda_,
    ast.ListComp: Expressions.comprehension,
    ast.SetComp: Expressions.comprehension,
    ast.DictComp: Expressions.comprehension,
    ast.GeneratorExp: Expressions.comprehension,
}


def _asks_of_number(node: ast.Compare) -> bool:
    """`x in y`; `x is True`, which a traced bool may be without being that object."""
    if isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return True
    right = node.comparators[0]
    return isinstance(node.ops[0], (ast.Is, ast.IsNot)) and (
        isinstance(right, ast.Constant) and isinstance(right.value, bool)
    )


def _is_name(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _passes_items(function: ast.expr) -> bool:
    """Whether its items are the items of its arguments."""
    return _is_name(function, "enumerate", "zip", "reversed")


_SHOW = {"print", "critical", "debug", "error", "exception", "info", "log", "warn", "warning"}


def _file_of(call: ast.Call) -> ast.expr | None:
    """Where `print(..., file=buffer)` writes to: a variable, or an attribute of one."""
    for keyword in call.keywords:
        value = keyword.value
        if keyword.arg == "file":
            named = value.value if isinstance(value, ast.Attribute) else value
            return copy.deepcopy(value) if isinstance(named, ast.Name) else None
    return None


def _may_show(function: ast.expr) -> bool:
    """Whether it has the name of what shows its arguments: print(), a logger's methods."""
    return nodes.last_name(function) in _SHOW


def shown(argument: ast.expr) -> ast.expr:
    """In an f-string, and what is like one, each value by itself."""
    if isinstance(argument, (ast.Starred, ast.Constant)):
        return argument
    if isinstance(argument, ast.JoinedStr):
        for part in argument.values:
            if isinstance(part, ast.FormattedValue):
                part.value = shown(part.value)
        return argument
    if isinstance(argument, ast.BinOp) and _is_text(argument.left):
        right = argument.right
        if isinstance(argument.op, ast.Mod):
            right = right.args[0]  # type: ignore[attr-defined]
        if isinstance(right, ast.Tuple):
            right.elts = [shown(e) for e in right.elts]
        else:
            right = shown(right)
        argument.left, argument.right = shown(argument.left), right
        return argument
    if isinstance(argument, ast.Call) and _makes_text(argument):
        argument.args = [shown(a) for a in argument.args]
        for keyword in argument.keywords:
            keyword.value = shown(keyword.value)
        return argument
    return nodes.placed(nodes.operation("shown", argument), argument)


def _is_text(node: ast.expr) -> bool:
    """A literal, or a sum of such and others: `"n = " + str(n)`, `"%d" % n`."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.JoinedStr)


def _makes_text(node: ast.Call) -> bool:
    """`"{:.3f}".format(n)`, `str(n)`: after conversion, `ag__.call(str)(n)`."""
    called = node.func
    inner = called.args[0] if isinstance(called, ast.Call) and called.args else called
    if isinstance(inner, ast.Attribute):
        return inner.attr == "format" and _is_text(inner.value)
    return isinstance(inner, ast.Name) and inner.id in ("str", "repr", "format")
