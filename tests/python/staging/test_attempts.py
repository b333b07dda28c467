"""Attempts to stage a loop that end before they change what nothing restores: each iteration changes it once."""

import array
import contextvars
import csv
import ctypes
import functools
import gc
import heapq
import io
import itertools
import json
import queue
import random
import struct
import threading
import types
import warnings
import weakref

import attempt_programs
import numpy as np
import pytest
import torch
import tracehost
from attempt_statements import DRAWN, OUTSIDE, OWN

LOOP, BRANCH = "for _ in range(n):", "if n > 1:"
MODULES = (
    *(
        array,
        contextvars,
        csv,
        ctypes,
        functools,
        heapq,
        io,
        itertools,
        json,
        queue,
        random,
        struct,
    ),
    *(threading, types, np, torch),
)
TURNS = [(0, 2, 1, 2), (1, 1, 0), (2, 0, 2, 2)]


class Obj:
    def __init__(self):
        self.a = 5


class Local(threading.local):
    a = 0


def written(tmp_path, lines):
    path = tmp_path / "program.py"
    path.write_text("\n".join(lines) + "\n")
    names = {m.__name__: m for m in MODULES} | {"np": np, "Obj": Obj, "Local": Local}
    exec(compile(path.read_text(), path, "exec"), names)
    return names["make"]


def of_outside(tmp_path, row, head):
    setup, statement, look = row
    inner = [f"            {statement}", "            x = x + 1", "        return x"]
    outer = ["def make():", f"    {setup}", "    def body(x, n):", f"        {head}"]
    return written(tmp_path, [*outer, *inner, f"    return body, lambda: ({look})"])


def of_own(tmp_path, row, head):
    setup, statement, look = row
    inner = [f"            {statement}", "            x = x + 1", f"        return x, {look}"]
    outer = ["def make():", "    def body(x, n):", f"        {setup}", f"        {head}"]
    return written(tmp_path, [*outer, *inner, "    return body, lambda: None"])


def calls(make, wrap, turns):
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    body, look = make()
    f = wrap(body)

    def run():
        seen = []
        for n in turns:
            try:
                result = str(f(torch.zeros(1, dtype=torch.float64), torch.tensor(n)))
            except StopIteration as error:
                result = repr(error)
            seen.append((n, result, str(look())))
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return contextvars.copy_context().run(run)


def check(make, turns):
    assert calls(make, tracehost.function, turns) == calls(make, lambda body: body, turns)


@pytest.mark.parametrize("head", [LOOP, BRANCH], ids=["loop", "branch"])
@pytest.mark.parametrize("case", OUTSIDE)
def test_what_is_outside_is_changed_as_in_eager(case, head, tmp_path):
    for turns in TURNS:
        check(of_outside(tmp_path, OUTSIDE[case], head), turns)


@pytest.mark.parametrize("case", DRAWN)
def test_each_iteration_of_the_trace_draws(case, tmp_path):
    for n in (0, 1, 2):
        check(of_outside(tmp_path, DRAWN[case], LOOP), (n,))


@pytest.mark.parametrize("head", [LOOP, BRANCH], ids=["loop", "branch"])
@pytest.mark.parametrize("case", OWN)
def test_what_the_body_has_made_is_changed_as_in_eager(case, head, tmp_path):
    for turns in TURNS:
        check(of_own(tmp_path, OWN[case], head), turns)


@pytest.mark.parametrize("make", attempt_programs.CASES.values(), ids=attempt_programs.CASES)
def test_programs_are_as_in_eager(make):
    for turns in [*TURNS, (0, 0, 3), (3, 2)]:
        check(make, turns)


class Holder:
    pass


def appends_in_a_loop_in_a_loop(holder, x, n):
    rows = []
    for i in range(n):
        for _ in range(n):
            rows.append(x * i)
        if hasattr(holder, "c"):
            del holder.c
    return torch.stack(rows)


def appends_in_a_side(holder, x, n):
    rows = [x]
    for i in range(n):
        if x.sum() + i > 2:
            rows.append(x)
        if hasattr(holder, "c"):
            del holder.c
    return torch.stack(rows)


def takes_in_a_loop_in_a_loop(holder, x, n):
    taken = itertools.count()
    for _ in range(n):
        for _ in range(n):
            x = x + next(taken)
        if hasattr(holder, "c"):
            del holder.c
    return x


@pytest.mark.parametrize(
    "body", [appends_in_a_loop_in_a_loop, appends_in_a_side, takes_in_a_loop_in_a_loop]
)
def test_what_an_attempt_drops_is_freed(body):
    """No exception of an attempt holds it in a reference cycle."""
    holder = Holder()
    holder.c = Holder()
    kept = weakref.ref(holder.c)
    f = tracehost.function(lambda x, n: body(holder, x, n))
    x, n = torch.ones(2), torch.tensor(3)
    gc.collect()
    gc.disable()
    try:
        assert torch.equal(f(x, n), body(Holder(), x, n))
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "statement", ["print('a')", "lines.append('a')", "calls['a'] = 1", "own = iter([1]); next(own)"]
)
def test_a_loop_that_does_nothing_of_this_is_staged(statement, tmp_path):
    """What it prints, it prints at the trace. What it takes, it has made."""
    row = "lines, calls = [], {}", statement, "0"
    f = tracehost.function(of_outside(tmp_path, row, LOOP)()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (2, 5, 0):
            assert f(torch.zeros(1), torch.tensor(n)) == n
    assert f.tracing_count() <= 3


def test_from_specs_the_message_names_the_line():
    values = np.zeros(3)

    @tracehost.function(
        input_signature=[tracehost.TensorSpec([1]), tracehost.TensorSpec([], torch.int64)]
    )
    def f(x, n):
        for _ in range(n):
            values[0] = 1
        return x

    line = f.__code__.co_firstlineno + 5 if hasattr(f, "__code__") else None
    with pytest.raises(tracehost.StagingError, match="changes an object of type numpy") as caught:
        f.get_concrete_function()
    assert "the body of the for at test_attempts.py:" in str(caught.value)
    assert line is None or f"at test_attempts.py:{line}, and" in str(caught.value)
    assert values.tolist() == [0, 0, 0]


def test_an_unrolled_while_has_a_limit():
    p = torch.nn.Parameter(torch.ones(1))

    def body(x, n):
        turns = 0
        while x.sum() < n:
            (p * x).sum().backward()
            p.grad = None
            x = x + 1
            turns += 1
        return x

    f = tracehost.function(body)
    assert f(torch.zeros(1), torch.tensor(3)) == 3
    with pytest.raises(tracehost.StagingError, match="has more than 256 iterations"):
        f(torch.zeros(1), torch.tensor(1000))
