"""match as a chain of ifs, so that patterns with values and guards may ask what is traced.

    match n:                      ag__subject_1 = n
        case 0: y = x             if ag__subject_1 == 0: y = x
        case 1 | 2: y = -x        elif ag__subject_1 == 1 or ag__subject_1 == 2: y = -x
        case k if k > t: y = k    else: k = ag__subject_1; if k > t: y = k

A pattern of a class, a sequence or a mapping stays a match, whose only case sets a flag.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from . import nodes
from .scopes import inner_blocks
from .undefined import MATCHED_FLAG, SUBJECT


def lowered(body: list[ast.stmt], numbers: Iterator[int]) -> list[ast.stmt]:
    """`numbers`: of the function's matches, for the names of their variables."""
    out: list[ast.stmt] = []
    for statement in body:
        for block in inner_blocks(statement):
            block[:] = lowered(block, numbers)
        if isinstance(statement, ast.Match) and any(map(_may_be_traced, statement.cases)):
            out += _chain(statement, next(numbers))
        else:
            out.append(statement)
    return out


def _chain(node: ast.Match, number: int) -> list[ast.stmt]:
    subject = f"{SUBJECT}{number}"
    rest: list[ast.stmt] = []
    for place, case in reversed(list(enumerate(node.cases))):
        flag = f"{MATCHED_FLAG}{number}_{place}"
        rest = [nodes.placed(s, case.pattern) for s in _case(case, subject, flag, rest)]
    return [nodes.placed(nodes.assign(subject, node.subject), node.subject), *rest]


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
    unset = nodes.assign(flag, ast.Constant(False))
    if not _is_simple(case.pattern):
        found = ast.match_case(case.pattern, None, [nodes.assign(flag, ast.Constant(True))])
        ask = ast.Match(nodes.name(subject), [found])
        return [unset, ask, ast.If(_both(nodes.name(flag), case.guard), case.body, rest)]
    test = _test(case.pattern, subject)
    names = _captured(case.pattern)
    if test is None:
        if case.guard is None:
            return _take(names, subject) + case.body
        chosen = ast.If(case.guard, case.body, rest)
        return [*_take(names, subject), nodes.placed(chosen, case.guard)]
    case.body = _take(names, subject) + case.body
    if case.guard is None or not names:
        return [ast.If(_both(test, case.guard), case.body, rest)]
    holds = nodes.assign(flag, ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), case.guard)))
    asked = ast.If(test, [*_take(names, subject), nodes.placed(holds, case.guard)], [])
    return [unset, asked, ast.If(nodes.name(flag), case.body, rest)]


def _take(names: list[str], subject: str) -> list[ast.stmt]:
    return [nodes.assign(name, nodes.name(subject)) for name in names]


def _both(test: ast.expr, guard: ast.expr | None) -> ast.expr:
    return test if guard is None else ast.BoolOp(ast.And(), [test, guard])


def _test(pattern: ast.pattern | None, subject: str) -> ast.expr | None:
    """Whether a simple pattern fits. None: it always does."""
    read = nodes.name(subject)
    if isinstance(pattern, ast.MatchValue):
        return nodes.placed(ast.Compare(read, [ast.Eq()], [pattern.value]), pattern)
    if isinstance(pattern, ast.MatchSingleton):
        value: ast.expr = ast.Constant(pattern.value)
        return nodes.placed(ast.Compare(read, [ast.Is()], [value]), pattern)
    if isinstance(pattern, ast.MatchAs):
        return _test(pattern.pattern, subject)
    if not isinstance(pattern, ast.MatchOr):
        return None
    tests: list[ast.expr] = []
    for test in (_test(p, subject) for p in pattern.patterns):
        if test is None:
            return ast.BoolOp(ast.Or(), [*tests, ast.Constant(True)]) if tests else None
        tests.append(test)
    return ast.BoolOp(ast.Or(), tests)


def _captured(pattern: ast.pattern | None) -> list[str]:
    if not isinstance(pattern, ast.MatchAs):
        return []
    return _captured(pattern.pattern) + ([pattern.name] if pattern.name else [])
