"""Which names belong to which scope, as Python's symbol table has it, and which of them blocks assign."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
TRIES: tuple[type, ...] = (ast.Try, ast.TryStar)

# From 3.12 on a comprehension (not a generator expression) runs in the function around it.
INLINED_COMPREHENSIONS = sys.version_info >= (3, 12)


@dataclass(slots=True)
class Scope:
    """A function's, lambda's, class body's or comprehension's names."""

    parent: Scope | None
    kind: str  # "function", "lambda", "class", "comprehension"
    locals: set[str] = field(default_factory=set)
    parameters: list[str] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    state: set[str] = field(default_factory=set)  # assigned by a generated block
    # variables that a function defined here may assign
    shared: set[str] = field(default_factory=set)
    free: frozenset[str] = frozenset()  # of the outermost function: its closure's variables
    has_class: bool = False  # super() without arguments works here
    first_parameter: str | None = None
    readers: dict[str, str | None] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)  # of a comprehension

    def reader(self, name: str) -> str | None:
        """The operator through which `name` is read here: None where it can't be Undefined."""
        try:
            return self.readers[name]
        except KeyError:
            found = self.readers[name] = self._find_reader(name)
            return found

    def _find_reader(self, name: str) -> str | None:
        if name in self.globals or name in self.locals:
            return "ld" if name in self.state else None
        how = "ld"
        for scope in self.outward():
            if scope.kind != "class" or scope is self:
                if name in scope.globals:
                    return "ldf" if name in scope.state else None
                if name in scope.locals:
                    return how if name in scope.state else None
                if name in scope.nonlocals and name in scope.state:
                    return "ldf"
            if scope.kind != "comprehension":
                how = "ldf"
        return None

    def owner(self, name: str) -> Scope | None:
        """The converted function around this one whose variable a free `name` is, if it is one."""
        for scope in self.outward():
            if scope.kind == "class" or (scope is self and self.kind != "function"):
                continue
            if name in scope.globals:
                return None
            if name in scope.locals:
                return scope
        return None

    def reaches(self, name: str) -> bool:
        """Whether nonlocal may be said of it in a function defined here."""
        return any(
            scope.kind != "class" and (name in scope.locals or name in scope.free)
            for scope in self.outward()
        )

    def spelling(self, name: str) -> str:
        """The name as generated code has it, in a comprehension or lambda."""
        owner = next((scope for scope in self.outward() if name in scope.locals), self)
        return owner.renamed.get(name, name)

    def outward(self) -> Iterator[Scope]:
        """This scope, and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


def parameters_of(arguments: ast.arguments) -> list[ast.arg]:
    """In the order of a code object's variables."""
    found = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    return found + [a for a in (arguments.vararg, arguments.kwarg) if a is not None]


def function_scope(node: Function, parent: Scope | None, has_walrus: bool) -> Scope:
    scope = Scope(parent, "lambda" if isinstance(node, ast.Lambda) else "function")
    scope.parameters = [a.arg for a in parameters_of(node.args)]
    positional = node.args.posonlyargs + node.args.args
    scope.first_parameter = positional[0].arg if positional else None
    scope.locals.update(scope.parameters)
    if isinstance(node, ast.Lambda):
        if has_walrus:
            scope.locals.update(walrus_names([node.body]))
    else:
        _add_locals(scope, node.body, has_walrus)
    return scope


def class_scope(node: ast.ClassDef, parent: Scope, has_walrus: bool) -> Scope:
    scope = Scope(parent, "class")
    _add_locals(scope, node.body, has_walrus)
    return scope


def _add_locals(scope: Scope, body: list[ast.stmt], has_walrus: bool) -> None:
    collect_names(body, scope)
    if has_walrus:
        scope.locals.update(walrus_names(body))
    scope.locals -= scope.globals | scope.nonlocals


def comprehension_scope(node: Comprehension, parent: Scope) -> Scope:
    inlined = INLINED_COMPREHENSIONS and not isinstance(node, ast.GeneratorExp)
    scope = Scope(parent, "comprehension" if inlined else "lambda")
    for generator in node.generators:
        scope.locals.update(target_names(generator.target))
    if inlined:
        scope.renamed = _renamed(node, scope)
    return scope


def _renamed(node: Comprehension, scope: Scope) -> dict[str, str]:
    """Variables of an inlined comprehension that get a name of their own: in another one, or if a lambda has it too.

    CPython 3.12 and 3.13 confuse such a variable with the one of that name around the comprehension, where that
    one is another function's. It is, in a block that we make a function of.
    """
    depth = -1 + sum(1 for _ in itertools.takewhile(_is_inlined, scope.outward()))
    inner = [
        n for n in ast.walk(node) if isinstance(n, ast.Lambda | Comprehension) and n is not node
    ]
    read = {n.id for each in inner for n in ast.walk(each) if isinstance(n, ast.Name)}
    return {n: f"{n}__{depth}" for n in (scope.locals if depth else scope.locals & read)}


def _is_inlined(scope: Scope) -> bool:
    return scope.kind == "comprehension"


def collect_names(body: list[ast.stmt], scope: Scope) -> None:
    """The names that the statements bind in their own scope, and those declared global or nonlocal."""
    for statement in body:
        kind = type(statement)
        if kind is ast.Global:
            scope.globals.update(statement.names)  # type: ignore[attr-defined]
        elif kind is ast.Nonlocal:
            scope.nonlocals.update(statement.names)  # type: ignore[attr-defined]
        else:
            scope.locals.update(bound_names(statement))
            for inner in inner_blocks(statement):
                collect_names(inner, scope)


def names_bound_in(body: list[ast.stmt]) -> set[str]:
    scope = Scope(None, "function")
    collect_names(body, scope)
    return scope.locals


def inner_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement that run in the same scope."""
    if isinstance(statement, DEFINITIONS):
        return
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if block:
            yield block
    for part in getattr(statement, "handlers", ()) or getattr(statement, "cases", ()):
        yield part.body


def bound_names(statement: ast.stmt) -> Iterable[str]:
    """The names that the statement itself binds: not its blocks, nor assignments within expressions."""
    kind = type(statement)
    if kind in (ast.Assign, ast.Delete):
        return [n for target in statement.targets for n in target_names(target)]  # type: ignore[attr-defined]
    if kind in (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor):
        return target_names(statement.target)  # type: ignore[attr-defined]
    if kind in DEFINITIONS:
        return [statement.name]  # type: ignore[attr-defined]
    if kind in (ast.With, ast.AsyncWith):
        items = statement.items  # type: ignore[attr-defined]
        return [n for item in items if item.optional_vars for n in target_names(item.optional_vars)]
    if kind in (ast.Import, ast.ImportFrom):
        return [a.asname or a.name.partition(".")[0] for a in statement.names]  # type: ignore[attr-defined]
    if kind in TRIES:
        return [h.name for h in statement.handlers if h.name]  # type: ignore[attr-defined]
    if kind is ast.Match:
        return [n for case in statement.cases for n in pattern_names(case.pattern)]  # type: ignore[attr-defined]
    if type(statement).__name__ == "TypeAlias":
        return target_names(statement.name)  # type: ignore[attr-defined]
    return ()


def target_names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [n for element in target.elts for n in target_names(element)]
    if isinstance(target, ast.Starred):
        return target_names(target.value)
    return []


def pattern_names(pattern: ast.pattern) -> list[str]:
    found = []
    for node in ast.walk(pattern):
        if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            found.append(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.append(node.rest)
    return found


def walrus_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Names bound by := in the nodes, in their own scope: comprehensions hand theirs on, functions don't."""
    return [n.target.id for n in same_scope(nodes) if isinstance(n, ast.NamedExpr)]


def same_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below, without those in functions and classes defined there."""
    todo: list[Any] = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, (*DEFINITIONS, ast.Lambda)):
            continue
        todo.extend(ast.iter_child_nodes(node))


def nonlocal_names(body: list[ast.stmt]) -> set[str]:
    """What functions defined in the body declare nonlocal."""
    found: set[str] = set()
    for node in same_scope(body):
        if isinstance(node, DEFINITIONS):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Nonlocal):
                    found.update(inner.names)
    return found
