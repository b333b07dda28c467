"""Programs made at random: the converted one does what Python does, with jumps out of any block."""

import contextlib
import linecache
import sys

from autograph_support import outcome
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracehost.autograph.conversion import compile as compiler
from tracehost.autograph.conversion import lower
from tracehost.autograph.run.calls import convert_callable

NAMES = ("a", "b", "c")
LOG = []


class Budget(Exception):
    """Ends a loop that would not."""


def tick(budget=[0]):
    budget[0] += 1
    if budget[0] > 60:
        raise Budget("too many steps")
    return budget[0]


def note(value):
    tick()
    LOG.append(value)
    return value


class quiet:
    """Suppresses what `/` raises."""

    def __enter__(self):
        return 1

    def __exit__(self, kind, value, traceback):
        return kind is ZeroDivisionError


expressions = st.recursive(
    st.sampled_from([*NAMES, "x", "0", "1", "2", "7"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "<", "==", "and", "or"]), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} < {p[1]} <= {p[2]})"),
        inner.map(lambda e: f"(not {e})"),
        inner.map(lambda e: f"note({e})"),
        st.tuples(st.sampled_from(NAMES), inner).map(lambda p: f"({p[0]} := {p[1]})"),
        inner.map(lambda e: f"(lambda: {e})()").filter(lambda e: ":=" not in e),
        inner.filter(lambda e: ":=" not in e).map(lambda e: f"sum([{e} for a in (1, 2)])"),
    ),
    max_leaves=4,
)


def indented(lines):
    return ["    " + line for line in lines]


def blocks(depth, loop, final=False):
    return st.lists(statements(depth, loop, final), min_size=1, max_size=3).map(
        lambda parts: [line for part in parts for line in part]
    )


def jumps(loop, final):
    if final:
        return st.just(["pass"])
    plain = [st.just(["return"]), expressions.map(lambda e: [f"return {e}"])]
    if loop:
        plain += [st.just(["break"]), st.just(["continue"])] * 2
    return st.one_of(*plain)


CASES = [
    "0",
    "1 | 2",
    "None | 7",
    "True",
    "b if b > note(1)",
    "_ if note(a)",
    "1 | 2 as b if note(c)",
] + ["int()", "int(b) if note(b)", "[a, b]", "{'k': c}", "3 as c", "(1 | 2) as a", "-1 | 0"]


def statements(depth, loop, final):
    simple = st.one_of(
        st.tuples(st.sampled_from(NAMES), expressions).map(lambda p: [f"{p[0]} = {p[1]}"]),
        st.tuples(st.sampled_from(NAMES), expressions).map(lambda p: [f"{p[0]} += {p[1]}"]),
        expressions.map(lambda e: [f"note({e})"]),
        st.sampled_from(NAMES).map(lambda name: [f"del {name}"]),
        expressions.map(lambda e: [f"assert {e}, note('m')"]),
        expressions.map(lambda e: [f"d[{e}] = a", "d['k'] = 1"]),
        st.just(["raise ValueError(x)"]),
        jumps(loop, final),
    )
    if depth == 0:
        return simple
    inner = blocks(depth - 1, loop, final)
    body = blocks(depth - 1, True, final)
    return st.one_of(
        simple,
        st.tuples(expressions, inner).map(lambda p: [f"if {p[0]}:", *indented(p[1])]),
        st.tuples(expressions, inner, inner).map(
            lambda p: [f"if {p[0]}:", *indented(p[1]), "else:", *indented(p[2])]
        ),
        st.tuples(inner, inner).map(
            lambda p: ["if x is None:", *indented(p[0]), "else:", *indented(p[1])]
        ),
        st.tuples(st.sampled_from(NAMES), body, st.none() | inner).map(
            lambda p: (
                [f"for {p[0]} in range(3):", *indented(p[1])]
                + (["else:", *indented(p[2])] if p[2] else [])
            )
        ),
        st.tuples(st.sampled_from(NAMES), body).map(
            lambda p: [f"for {p[0]} in (1, 2):", *indented(p[1])]
        ),
        st.tuples(expressions, body, st.none() | inner).map(
            lambda p: (
                [f"while tick() and {p[0]}:", *indented(p[1])]
                + (["else:", *indented(p[2])] if p[2] else [])
            )
        ),
        inner.map(lambda b: ["with quiet() as a:", *indented(b)]),
        st.tuples(inner, inner, inner, blocks(depth - 1, loop, True)).map(
            lambda p: (
                ["try:", *indented(p[0]), "except ZeroDivisionError as e:", *indented(p[1])]
                + ["else:", *indented(p[2]), "finally:", *indented(p[3])]
            )
        ),
        st.tuples(inner, inner).map(
            lambda p: (
                ["match a:", "    case 1:", *indented(indented(p[0]))]
                + ["    case b:", *indented(indented(p[1]))]
            )
        ),
        st.tuples(expressions, st.sampled_from(CASES), inner, st.sampled_from(CASES), inner).map(
            lambda p: (
                [f"match {p[0]}:", f"    case {p[1]}:", *indented(indented(p[2]))]
                + [f"    case {p[3]}:", *indented(indented(p[4]))]
            )
        ),
        blocks(depth - 1, False, final).map(
            lambda b: ["def inner(x, b=1):", "    nonlocal a", *indented(b), "c = inner(a)"]
        ),
    )


def made(lines, number=[0]):
    """The function that the lines are the body of, with a source that can be read."""
    number[0] += 1
    source = "\n".join(["def f(x):", "    a = x", "    d = {}", *indented(lines), ""])
    name = f"<generated {number[0]}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"note": note, "tick": tick, "quiet": quiet}
    exec(compile(source, name, "exec"), space)
    return space["f"], source


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(statements(3, False, False), min_size=1, max_size=5), st.sampled_from([24, 1]))
def test_generated(parts, most_nested):
    """Few nested exits make the other way of guarding what follows."""
    before, lower.MOST_NESTED = lower.MOST_NESTED, most_nested
    try:
        check(parts)
    finally:
        lower.MOST_NESTED = before


@contextlib.contextmanager
def one_instruction_at_a_time():
    """Python 3.11 makes two instructions one after a few iterations, and then gives the line of the first for both."""
    before = sys.gettrace()
    sys.settrace(before or (lambda *_: None))
    try:
        yield
    finally:
        sys.settrace(before)


def check(parts):
    lines = [line for part in parts for line in part]
    try:
        f, source = made(lines)
    except SyntaxError:  # del and nonlocal of what is not there
        return
    converted = convert_callable(f)
    assert converted is not f, compiler.conversion_of(f).reason
    for x in (0, 1, 3):
        results = []
        for each in (f, converted):
            tick.__defaults__[0][0] = 0
            with one_instruction_at_a_time():
                results.append(outcome(each, (x,), LOG))
        assert results[0] == results[1], source


def test_the_line_of_a_variable_that_is_not_there_behind_a_capture():
    case = ["match a:", "    case 1:", "        continue", "    case b:", "        c += b"]
    check([["while tick() and 1:", *indented(case), "    c = b"]])


def test_a_variable_of_a_comprehension_that_a_lambda_in_it_reads():
    """Python 3.12 and 3.13 lose it, and the variable around it, where the latter is another function's."""
    read = "note(sum([(lambda: (not a))() for a in (1, 2)]))"
    own = "note(sum([(lambda a: a + b)(b) + (lambda: a)() for a in (1, 2)]))"
    nested = "note(sum([sum([(lambda: a)() for a in (a, 7)]) for a in (1, 2)]))"
    check([["for b in range(3):", "    note((lambda: a)())", f"    {read}"]])
    twice = "note(sum([sum([a for a in (1, 2)]) for a in (1, 2)]))"
    check([["for b in range(3):", "    note((lambda: a)())", f"    {twice}"]])
    check([["for b in range(3):", f"    {own}", f"    {nested}", "    note(a)"]])
