"""The state of a block that becomes a function: what it assigns, and the functions that read and write that."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from . import nodes
from .lower import is_plain
from .scopes import DEFINITIONS, Scope, bound_names, inner_blocks, walrus_names

# Variable's name -> None; text of an attribute or item -> a node of it.
Assigned = dict[str, Any]

_STATE = "ag__state"


def collect(body: list[ast.stmt], scope: Scope, has_walrus: bool) -> Assigned:
    """What the statements assign, kept on each if and loop that becomes functions (`ag_state`)."""
    found: Assigned = {}
    for statement in body:
        found |= _of_statement(statement, scope, has_walrus)
    return found


def _of_statement(statement: ast.stmt, scope: Scope, has_walrus: bool) -> Assigned:
    if getattr(statement, "ag_dead", False):
        return {}
    found: Assigned = dict.fromkeys(bound_names(statement))
    found.update(_places(statement))
    if has_walrus:
        found.update(dict.fromkeys(_walrus_here(statement)))
    if isinstance(statement, ast.If) and not is_plain(statement.test):
        body = collect(statement.body, scope, has_walrus)
        orelse = collect(statement.orelse, scope, has_walrus)
        statement.ag_sides = body, orelse  # type: ignore[attr-defined]
        _keep(statement, body | orelse, scope)
        return found | body | orelse
    for block in inner_blocks(statement):
        found |= collect(block, scope, has_walrus)
    if isinstance(statement, (ast.For, ast.While)) and not statement.ag_plain:
        _keep(statement, found, scope)
    return found


def _keep(statement: ast.stmt, assigned: Assigned, scope: Scope) -> None:
    """Give a block its state. A place whose owner is assigned in the block is not state: it is new there."""
    state = {
        text: node
        for text, node in assigned.items()
        if node is None or not _reads_any(node, assigned)
    }
    state.update(dict.fromkeys(sorted(scope.shared)))
    statement.ag_state = state  # type: ignore[attr-defined]
    scope.state.update(text for text, node in state.items() if node is None)


def _walrus_here(statement: ast.stmt) -> list[str]:
    """Names bound by := in the statement's own expressions, without its blocks."""
    if isinstance(statement, DEFINITIONS):
        return []
    own = (ast.expr, ast.withitem)
    parts = [n for n in ast.iter_child_nodes(statement) if isinstance(n, own)]
    return walrus_names(parts + [c.guard for c in getattr(statement, "cases", ()) if c.guard])


def _places(statement: ast.stmt) -> Assigned:
    """Attributes and items that the statement stores to, if their owner can be named without a call."""
    if isinstance(statement, (ast.Assign, ast.Delete)):
        targets = statement.targets
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign, ast.For)):
        targets = [statement.target]
    elif isinstance(statement, ast.With):
        targets = [item.optional_vars for item in statement.items if item.optional_vars]
    else:
        return {}
    found: Assigned = {}
    todo = list(targets)
    while todo:
        target = todo.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            todo.extend(target.elts)
        elif isinstance(target, ast.Starred):
            todo.append(target.value)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            text = place_text(target)
            if text is not None:
                found[text] = target
    return found


def place_text(node: ast.expr) -> str | None:
    """`self.x`, `d['k']`, `a.b[0]`: as the user writes it. None for what needs a call or a slice."""
    if not isinstance(node, (ast.Attribute, ast.Subscript)):
        return None
    owner = node.value.id if isinstance(node.value, ast.Name) else place_text(node.value)
    if owner is None or isinstance(node, ast.Attribute):
        return None if owner is None else f"{owner}.{node.attr}"
    key = _key_text(node.slice)
    return None if key is None else f"{owner}[{key}]"


def _key_text(key: ast.expr) -> str | None:
    if isinstance(key, ast.Constant):
        return repr(key.value)
    if isinstance(key, ast.Name):
        return key.id
    if isinstance(key, ast.UnaryOp) and isinstance(key.operand, ast.Constant):
        return ast.unparse(key)
    return None


def _reads_any(place: ast.expr, names: Assigned) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(place))


def declarations(names: Iterable[str], scope: Scope) -> list[ast.stmt]:
    """global and nonlocal, for a function that assigns these names."""
    names, shared = dict.fromkeys(names), scope.globals
    return [
        *nodes.declare(ast.Global, [n for n in names if n in shared]),
        *nodes.declare(ast.Nonlocal, [n for n in names if n not in shared]),
    ]


class StateFunctions:
    """Builds the get_state and set_state of one block, and the declarations that its functions need.

    Requires for getter() and setter(): the statements of the block are converted.
    """

    def __init__(self, state: Assigned, scope: Scope) -> None:
        self._state = state
        self._scope = scope

    def declarations(self, names: Assigned) -> list[ast.stmt]:
        """For the functions that assign these."""
        return declarations((text for text, node in names.items() if node is None), self._scope)

    def names(self) -> ast.Tuple:
        return nodes.names_tuple(list(self._state))

    def getter(self) -> ast.expr:
        if not self._state:
            return nodes.operator("no_state")
        parts = [self._read(text, node) for text, node in self._state.items()]
        return nodes.thunk(ast.Tuple(parts, nodes.LOAD))

    def setter(self) -> tuple[list[ast.stmt], ast.expr]:
        if not self._state:
            return [], nodes.operator("set_no_state")
        body: list[ast.stmt] = self.declarations(self._state)
        targets: list[ast.expr] = []
        after: list[ast.stmt] = []
        for index, (text, node) in enumerate(self._state.items()):
            plain = node is None and self._is_declared(text)
            target = text if plain else f"ag__value_{index}"
            targets.append(ast.Name(target, nodes.STORE))
            if not plain:
                after.append(self._write(text, node, target))
        body.append(ast.Assign([ast.Tuple(targets, nodes.STORE)], nodes.name(_STATE)))
        made = nodes.define("ag__set_state", nodes.one_argument(_STATE), body + after)
        return [made], nodes.name("ag__set_state")

    def _is_declared(self, name: str) -> bool:
        """Whether it holds an Undefined before its first assignment: ours, and assigned by a block."""
        owner = self._scope.owner(name)
        return owner is not None and name in owner.state and name not in self._scope.globals

    def _read(self, text: str, node: Any) -> ast.expr:
        if node is None:
            read = nodes.name(text)
            if self._is_declared(text):
                return read
            return nodes.operation("ldu", nodes.thunk(read), ast.Constant(text))
        getter = "get_attribute" if isinstance(node, ast.Attribute) else "get_item"
        return nodes.operation(getter, *self._place(node), ast.Constant(text))

    def _write(self, text: str, node: Any, value: str) -> ast.stmt:
        if node is None:
            return self._write_foreign(text, value)
        setter = "set_attribute" if isinstance(node, ast.Attribute) else "set_item"
        return ast.Expr(nodes.operation(setter, *self._place(node), nodes.name(value)))

    def _place(self, node: ast.Attribute | ast.Subscript) -> list[ast.expr]:
        key = ast.Constant(node.attr) if isinstance(node, ast.Attribute) else node.slice
        return [nodes.thunk(node.value), nodes.thunk(key)]

    def _write_foreign(self, name: str, value: str) -> ast.stmt:
        """A variable that others read without us: no Undefined may get into it."""
        missing = ast.ExceptHandler(nodes.name("NameError"), None, [ast.Pass()])
        delete = ast.Try([ast.Delete([ast.Name(name, ast.Del())])], [missing], [], [])
        is_undefined = nodes.operation("is_undefined", nodes.name(value))
        return ast.If(is_undefined, [delete], [nodes.assign(name, nodes.name(value))])
