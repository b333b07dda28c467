"""break, continue and return, where a block that becomes a function holds them: flags, and guards of what follows.

`if c: return a` followed by more becomes an if with the rest as its else, so that each path assigns the result
once. Where that is not possible (loops, try, with), what follows is guarded by `if not flag`. A path that reaches the
end of the function returns None there, as if it were written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import nodes
from .scopes import DEFINITIONS, TRIES, inner_blocks
from .undefined import BREAK_FLAG, CONTINUE_FLAG, RETURN_FLAG, RETURN_VALUE

# Beyond this depth of early exits the rest is guarded in place: code would grow with the depth's square.
MOST_NESTED = 24

_PLAIN_CALLS = ("isinstance", "issubclass", "hasattr", "callable")


def is_plain(test: ast.expr) -> bool:
    """Whether the value is a Python bool for any operands."""
    kind = type(test)
    if kind is ast.Constant:
        return True
    if kind is ast.Compare:
        return len(test.ops) == 1 and _is_plain_comparison(test)  # type: ignore[attr-defined, arg-type]
    if kind is ast.UnaryOp:
        return isinstance(test.op, ast.Not) and is_plain(test.operand)  # type: ignore[attr-defined]
    if kind is ast.BoolOp:
        return all(is_plain(value) for value in test.values)  # type: ignore[attr-defined]
    if kind is ast.Call:
        return isinstance(test.func, ast.Name) and test.func.id in _PLAIN_CALLS  # type: ignore[attr-defined]
    return False


def _is_plain_comparison(test: ast.Compare) -> bool:
    """`y is None`, `"a" in y`; not `y is True`, `x in y`, which ask what is traced."""
    right = test.comparators[0]
    if isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return not (isinstance(right, ast.Constant) and isinstance(right.value, bool))
    if isinstance(test.ops[0], (ast.In, ast.NotIn)):
        return _is_text(test.left) or _is_text(right)
    return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def stays_a_loop(loop: ast.For | ast.While) -> bool:
    """A loop over a literal, that nothing leaves early."""
    if not isinstance(loop, ast.For):
        return False
    literal = isinstance(loop.iter, (ast.Tuple, ast.List)) or (
        isinstance(loop.iter, ast.Constant) and isinstance(loop.iter.value, (str, bytes))
    )
    return literal and all(isinstance(jump, ast.Continue) for jump in jumps_out(loop.body))


def jumps_out(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that lead out of the block: return, and break and continue of loops around it."""
    for statement in body:
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
            yield statement
        elif isinstance(statement, (ast.For, ast.While)):
            yield from (jump for jump in jumps_out(statement.body) if isinstance(jump, ast.Return))
            yield from jumps_out(statement.orelse)
        else:
            for block in inner_blocks(statement):
                yield from jumps_out(block)


def jump_in_finally(body: list[ast.stmt]) -> int | None:
    """The line of a finally block that is left by a jump: it drops the exception under way."""
    for statement in body:
        final = getattr(statement, "finalbody", None)
        if final and any(jumps_out(final)):
            return final[0].lineno
        for block in inner_blocks(statement):
            line = jump_in_finally(block)
            if line is not None:
                return line
    return None


def has_return(body: list[ast.stmt]) -> bool:
    return any(isinstance(jump, ast.Return) for jump in jumps_out(body))


def returns_a_value(body: list[ast.stmt]) -> bool:
    return any(isinstance(jump, ast.Return) and jump.value for jump in jumps_out(body))


def returns_in_block(body: list[ast.stmt]) -> bool:
    """Whether a return stands in an if or loop that becomes functions."""
    for statement in body:
        becomes_function = (isinstance(statement, ast.If) and not is_plain(statement.test)) or (
            isinstance(statement, (ast.For, ast.While)) and not stays_a_loop(statement)
        )
        if becomes_function and (has_return(statement.body) or has_return(statement.orelse)):
            return True
        if any(returns_in_block(block) for block in inner_blocks(statement)):
            return True
    return False


def always_jumps(body: list[ast.stmt]) -> bool:
    """Whether the block never reaches its end, as can be seen from its last statement."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return always_jumps(last.body) and always_jumps(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue, ast.Raise))


@dataclass(slots=True)
class Lowered:
    """A block without jumps: the flags it may set, and whether its end can be reached without one."""

    body: list[ast.stmt] = field(default_factory=list)
    flags: dict[str, None] = field(default_factory=dict)
    falls: bool = True


@dataclass(slots=True)
class Loop:
    break_flag: str
    continue_flag: str


class Lowering:
    """One function's pass. Loops get `ag_flags`: what ends them beside their condition."""

    def __init__(self, body: list[ast.stmt]) -> None:
        self.returns = returns_in_block(body)
        self.dropped: list[ast.stmt] = []  # never reached; its names are local all the same
        self._loops: list[Loop] = []
        self._count = 0
        self._depth = 0
        self._read: set[str] = set()
        self._set_flags: list[ast.Assign] = []

    def run(self, body: list[ast.stmt], last_line: int) -> list[ast.stmt]:
        if self.returns and returns_a_value(body) and not always_jumps(body):
            body = [*body, _at_line(ast.Return(ast.Constant(None)), last_line)]
        lowered = self.block(body).body
        for assignment in self._set_flags:
            flag = assignment.targets[0].id  # type: ignore[attr-defined]
            assignment.ag_dead = flag != RETURN_FLAG and flag not in self._read  # type: ignore[attr-defined]
        if self.returns:
            at_end: Any = ast.Return(nodes.operation("return_value", nodes.name(RETURN_VALUE)))
            at_end.ag_made = True
            lowered.append(_at_line(at_end, last_line))
        return lowered

    def block(self, body: list[ast.stmt]) -> Lowered:
        out = Lowered()
        index = 0
        while index < len(body):
            statement = body[index]
            index += 1
            took_rest = (
                isinstance(statement, ast.If)
                and index < len(body)
                and self._give_rest(statement, body, index)
            )
            jumped = self._statement(statement, out)
            if took_rest or not out.falls:
                if not took_rest:
                    self.dropped += body[index:]
                return out
            if jumped and index < len(body):
                if self._depth < MOST_NESTED:
                    self._depth += 1
                    self._guard(body[index:], jumped, out)
                    self._depth -= 1
                    return out
                self._guard_in_place(body, index, jumped, out)
                return out
        return out

    def _give_rest(self, statement: ast.If, body: list[ast.stmt], index: int) -> bool:
        """Move what follows an if into one branch, if the other branch always leaves."""
        if self._depth >= MOST_NESTED or not self._has_jump(statement):
            return False
        if always_jumps(statement.body):
            if not always_jumps(statement.orelse):
                if not statement.orelse:
                    statement.ag_rest = 1  # type: ignore[attr-defined]
                statement.orelse = statement.orelse + body[index:]
        elif statement.orelse and always_jumps(statement.orelse):
            statement.body = statement.body + body[index:]
        else:
            return False
        return True

    def _has_jump(self, statement: ast.stmt) -> bool:
        """Whether the statement holds a jump that is lowered, out of itself."""
        return any(
            self.returns if isinstance(jump, ast.Return) else self._loops
            for jump in jumps_out([statement])
        )

    def _guard_in_place(
        self, body: list[ast.stmt], index: int, flags: dict[str, None], out: Lowered
    ) -> None:
        """Too deep to nest: each piece up to the next jump has a guard of its own."""
        flags = dict(flags)
        while index < len(body):
            jumps = (i + 1 for i in range(index, len(body)) if self._has_jump(body[i]))
            stop = next(jumps, len(body))
            self._guard(body[index:stop], flags, out)
            flags.update(out.flags)
            index = stop

    def _guard(self, rest: list[ast.stmt], flags: dict[str, None], out: Lowered) -> None:
        inner = self.block(rest)
        guard = self._unless(flags, inner.body, rest[0])
        if list(flags) == [RETURN_FLAG] and not inner.falls:
            # It is True there anyway; said so, it is Python's True again if all paths return.
            guard.orelse = [nodes.assign(RETURN_FLAG, ast.Constant(True))]
        out.body.append(guard)
        out.flags.update(inner.flags)

    def _unless(self, flags: dict[str, None], body: list[ast.stmt], first: ast.stmt) -> ast.If:
        self._read.update(flags)
        guard = nodes.placed(ast.If(none_of(list(flags)), body, []), first)
        guard.ag_made = True
        guard.ag_rest = 0
        return guard

    def _statement(self, statement: ast.stmt, out: Lowered) -> dict[str, None]:
        """Append the statement. Return the flags that it may set while the statements behind it are reached."""
        kind = type(statement)
        if kind is ast.Return and self.returns:
            self._set_return(statement, out)  # type: ignore[arg-type]
            return {}
        if kind in (ast.Break, ast.Continue) and self._loops:
            loop = self._loops[-1]
            self._set(loop.break_flag if kind is ast.Break else loop.continue_flag, statement, out)
            return {}
        if kind in (ast.Return, ast.Break, ast.Continue, ast.Raise):
            out.body.append(statement)
            out.falls = False
            return {}
        if kind is ast.If:
            return self._if(statement, out)  # type: ignore[arg-type]
        if kind in (ast.For, ast.While):
            return self._loop(statement, out)  # type: ignore[arg-type]
        if isinstance(statement, DEFINITIONS):
            out.body.append(statement)
            return {}
        if kind in TRIES:
            return self._try(statement, out)  # type: ignore[arg-type]
        return self._in_place(statement, out)

    def _set(self, flag: str, jump: ast.stmt, out: Lowered) -> None:
        made = _set_at(jump, flag, True)
        self._set_flags.append(made)
        out.body.append(made)
        out.flags[flag] = None
        out.falls = False

    def _set_return(self, statement: ast.Return, out: Lowered) -> None:
        made = nodes.assign(RETURN_VALUE, statement.value or ast.Constant(None))
        out.body.append(nodes.placed(made, statement))
        self._set(RETURN_FLAG, statement, out)

    def _if(self, statement: ast.If, out: Lowered) -> dict[str, None]:
        self._depth += 1
        body, orelse = self.block(statement.body), self.block(statement.orelse)
        self._depth -= 1
        statement.body, statement.orelse = body.body, orelse.body
        out.body.append(statement)
        flags = body.flags | orelse.flags
        out.flags.update(flags)
        out.falls = body.falls or orelse.falls
        return flags

    def _loop(self, loop: ast.For | ast.While, out: Lowered) -> dict[str, None]:
        self._count += 1
        state = Loop(f"{BREAK_FLAG}{self._count}", f"{CONTINUE_FLAG}{self._count}")
        orelse, loop.orelse = loop.orelse, []
        loop.ag_plain = stays_a_loop(loop)  # type: ignore[union-attr]
        depth, self._depth = self._depth, 0
        self._loops.append(state)
        body = self.block(loop.body)
        self._loops.pop()
        self._depth = depth
        loop.body = body.body
        if state.continue_flag in self._read:
            loop.body.insert(0, _set_at(loop, state.continue_flag, False))
        ends = [f for f in body.flags if f != state.continue_flag]
        loop.ag_flags = ends  # type: ignore[union-attr]
        self._read.update(ends)
        if state.break_flag in ends:
            out.body.append(_set_at(loop, state.break_flag, False))
        out.body.append(loop)
        jumped = {f: None for f in ends if f != state.break_flag}
        out.flags.update(jumped)
        if orelse:
            self._loop_else(orelse, ends, jumped, out)
        elif ends == [RETURN_FLAG] and _is_endless(loop):  # Python's True again, as in _guard
            out.body.append(_set_at(loop, RETURN_FLAG, True))
            out.falls = False
        return jumped

    def _loop_else(
        self, orelse: list[ast.stmt], ends: list[str], jumped: dict[str, None], out: Lowered
    ) -> None:
        inner = self.block(orelse)
        if ends:
            out.body.append(self._unless(dict.fromkeys(ends), inner.body, orelse[0]))
        else:
            out.body.extend(inner.body)
            out.falls = inner.falls
        jumped.update(inner.flags)
        out.flags.update(inner.flags)

    def _try(self, statement: ast.Try, out: Lowered) -> dict[str, None]:
        flags: dict[str, None] = {}
        statement.body = self._inner(statement.body, flags)
        jumped = dict(flags)
        for handler in statement.handlers:
            handler.body = self._inner(handler.body, flags)
        if statement.orelse:
            first, orelse = statement.orelse[0], self._inner(statement.orelse, flags)
            statement.orelse = [self._unless(jumped, orelse, first)] if jumped else orelse
        statement.finalbody = self.block(statement.finalbody).body
        out.body.append(statement)
        out.flags.update(flags)
        return flags

    def _inner(self, body: list[ast.stmt], flags: dict[str, None]) -> list[ast.stmt]:
        """A block of a statement without jumps; adds the flags that it may set."""
        inner = self.block(body)
        flags.update(inner.flags)
        return inner.body

    def _in_place(self, statement: ast.stmt, out: Lowered) -> dict[str, None]:
        """with and match: their blocks run where they stand."""
        flags: dict[str, None] = {}
        for owner in getattr(statement, "cases", None) or [statement]:
            if hasattr(owner, "body"):
                owner.body = self._inner(owner.body, flags)
        out.body.append(statement)
        out.flags.update(flags)
        return flags


def _set_at(place: ast.stmt, flag: str, value: bool) -> ast.Assign:
    return nodes.placed(nodes.assign(flag, ast.Constant(value)), place)


def _at_line(statement: ast.stmt, line: int) -> ast.stmt:
    statement.lineno = statement.end_lineno = line
    statement.col_offset = statement.end_col_offset = 0
    return statement


def _is_endless(loop: ast.For | ast.While) -> bool:
    """`while True:`, without options, which may bound it."""
    if not isinstance(loop, ast.While) or not isinstance(loop.test, ast.Constant):
        return False
    first = loop.body[0]
    bounded = isinstance(first, ast.Expr) and any(
        isinstance(n, ast.keyword) and n.arg == "maximum_iterations" for n in ast.walk(first)
    )
    return bool(loop.test.value) and not bounded


def none_of(flags: list[str]) -> ast.expr:
    """`not a and not b`, by operators: a flag set below a staged if is a traced value."""
    first = nodes.operation("not_", nodes.name(flags[0]))
    if len(flags) == 1:
        return first
    return nodes.operation("and_", first, nodes.thunk(none_of(flags[1:])))
