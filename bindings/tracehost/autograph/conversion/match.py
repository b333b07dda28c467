"""match as a chain of ifs, so that patterns with values and guards may ask what is traced.

    match n:                      ag__subject_1 = n
        case 0: y = x             if ag__subject_1 == 0: y = x
        case 1 | 2: y = -x        elif ag__subject_1 == 1 or ag__subject_1 == 2: y = -x
        case k if k > t: y = k    else: k = ag__subject_1; if k > t: y = k

A pattern of a class, a sequence or a mapping stays a match, whose only case sets a flag.
"""

from __future__ import annotations

import ast
from typing import Any

from . import nodes
from .scopes import DEFINITIONS, inner_blocks
from .undefined import MATCHED_FLAG, SUBJECT


class Matches:
    """Of one function."""

    def __init__(self) -> None:
        self._count = 0

    def lowered(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            if not isinstance(statement, DEFINITIONS):
                for block in inner_blocks(statement):
                    block[:] = self.lowered(block)
            if isinstance(statement, ast.Match) and any(map(_may_be_traced, statement.cases)):
                out += self._chain(statement)
            else:
                out.append(statement)
        return out

    def _chain(self, node: ast.Match) -> list[ast.stmt]:
        self._count += 1
        subject = f"{SUBJECT}{self._count}"
        rest: list[ast.stmt] = []
        for number, case in reversed(list(enumerate(node.cases))):
            flag = f"{MATCHED_FLAG}{self._count}_{number}"
            rest = _case(case, subject, flag, rest)
        return [nodes.assign(subject, node.subject, nodes.where(node.subject)), *rest]


def _may_be_traced(case: ast.match_case) -> bool:
    """Whether it asks for a truth that a graph may have. No tensor equals a text."""
    if case.guard is not None:
        return True
    values = [
        p for p in ast.walk(case.pattern) if isinstance(p, (ast.MatchValue, ast.MatchSingleton))
    ]
    return _is_simple(case.pattern) and any(
        not isinstance(getattr(p.value, "value", p.value), (str, bytes, type(None))) for p in values
    )


def _is_simple(pattern: ast.pattern | None) -> bool:
    if isinstance(pattern, ast.MatchOr):
        return all(_is_simple(p) and not _captured(p) for p in pattern.patterns)
    if isinstance(pattern, ast.MatchAs):
        return _is_simple(pattern.pattern)
    return pattern is None or isinstance(pattern, (ast.MatchValue, ast.MatchSingleton))


def _case(case: ast.match_case, subject: str, flag: str, rest: list[ast.stmt]) -> list[ast.stmt]:
    """The case, and in its else the ones after it."""
    at = nodes.first_line(case.pattern)
    if not _is_simple(case.pattern):
        found = ast.match_case(case.pattern, None, [_flag(flag, True, at)])
        ask = ast.Match(nodes.name(subject, at), [found], **at)
        matched: ast.expr = nodes.name(flag, at)
        return [_flag(flag, False, at), ask, _if(_both(matched, case.guard, at), case, rest, at)]
    test = _test(case.pattern, subject, at)
    names = _captured(case.pattern)
    if test is None:
        if case.guard is None:
            return _take(names, subject, at) + case.body
        return [
            *_take(names, subject, at),
            _if(case.guard, case, rest, nodes.first_line(case.guard)),
        ]
    case.body = _take(names, subject, at) + case.body
    if case.guard is None or not names:
        return [_if(_both(test, case.guard, at), case, rest, at)]
    here = nodes.where(case.guard)
    holds = ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), case.guard, **here), **here)
    guarded = [*_take(names, subject, at), nodes.assign(flag, holds, here)]
    asked = ast.If(test, guarded, [], **at)
    return [_flag(flag, False, at), asked, _if(nodes.name(flag, at), case, rest, at)]


def _take(names: list[str], subject: str, at: nodes.Where) -> list[ast.stmt]:
    return [nodes.assign(name, nodes.name(subject, at), at) for name in names]


def _if(test: ast.expr, case: ast.match_case, rest: list[ast.stmt], at: nodes.Where) -> ast.stmt:
    return ast.If(test, case.body, rest, **at)


def _flag(name: str, value: bool, at: nodes.Where) -> ast.stmt:
    return nodes.assign(name, nodes.constant(value, at), at)


def _both(test: ast.expr, guard: ast.expr | None, at: nodes.Where) -> ast.expr:
    return test if guard is None else ast.BoolOp(ast.And(), [test, guard], **at)


def _test(pattern: ast.pattern | None, subject: str, at: nodes.Where) -> ast.expr | None:
    """Whether a simple pattern fits. None: it always does."""
    read = nodes.name(subject, at)
    if isinstance(pattern, ast.MatchValue):
        return ast.Compare(read, [ast.Eq()], [pattern.value], **nodes.where(pattern))
    if isinstance(pattern, ast.MatchSingleton):
        value: Any = nodes.constant(pattern.value, at)
        return ast.Compare(read, [ast.Is()], [value], **nodes.where(pattern))
    if isinstance(pattern, ast.MatchAs):
        return _test(pattern.pattern, subject, at)
    if not isinstance(pattern, ast.MatchOr):
        return None
    tests: list[ast.expr] = []
    for test in (_test(p, subject, nodes.first_line(p)) for p in pattern.patterns):
        if test is None:
            return (
                None
                if not tests
                else ast.BoolOp(ast.Or(), [*tests, nodes.constant(True, at)], **at)
            )
        tests.append(test)
    return ast.BoolOp(ast.Or(), tests, **at)


def _captured(pattern: ast.pattern | None) -> list[str]:
    if not isinstance(pattern, ast.MatchAs):
        return []
    return _captured(pattern.pattern) + ([pattern.name] if pattern.name else [])
