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
import operator
import os
import pickle
import queue
import random
import struct
import sys
import tempfile
import threading
import types
import warnings
import weakref

import attempt_programs
import numpy as np
import pytest
import torch
import tracehost
from attempt_statements import DRAWN, OUTSIDE, OWN, SETTINGS

LOOP, BRANCH = "for _ in range(n):", "if n > 1:"
MODULES = [array, contextvars, csv, ctypes, functools, gc, heapq, io, itertools, json, operator]
MODULES += [os, pickle, queue, random, struct, sys, tempfile, threading, types, torch]
TURNS = [(0, 2, 1, 2), (1, 1, 0), (2, 0, 2, 2)]


class Obj:
    def __init__(self):
        self.a = 5


class Local(threading.local):
    a = 0


def written(tmp_path, lines):
    path = tmp_path / "program.py"
    path.write_text("\n".join(lines) + "\n")
    names = {m.__name__: m for m in MODULES}
    names |= {"np": np, "Obj": Obj, "Local": Local, "__name__": "program"}
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
@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting_is_switched_as_in_eager(case, head, tmp_path):
    make = of_outside(tmp_path, SETTINGS[case], head)
    try:
        for n in (0, 1, 2):
            check(make, (n,))
    finally:
        make()  # as at first


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


PURE = [
    "print('a')",
    "own = iter([1]); next(own)",
    "own = bytearray(2); own[0] = 1; own.append(2)",
    "own = np.zeros(2); own += 1; own[0] = 2; np.add(own, 1, out=own)",
    "own = io.StringIO(); own.write('a'); print('b', file=own)",
    "own = Obj(); own.__dict__.update(b=1); vars(own)['c'] = 2",
    "a.sum(); a.max(0); a.astype(int); np.sqrt(a); np.mean(a, axis=0); np.maximum(a, 1)",
    "[k * 2 for k in a]; sum(k for k in range(3)); sorted({2, 1}); dict(zip('ab', a))",
    "with lock: pass",
    "scale(3)",
]


@pytest.mark.parametrize("statement", PURE)
def test_a_loop_that_does_nothing_of_this_is_staged(statement, tmp_path):
    """What it prints, it prints at the trace. What it changes, it has made."""
    setup = "a = np.arange(3.0); lock = threading.Lock(); scale = functools.lru_cache(lambda k: k)"
    f = tracehost.function(of_outside(tmp_path, (setup, statement, "0"), LOOP)()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (2, 5, 0, 3):
            assert f(torch.zeros(1), torch.tensor(n)) == n
    assert f.tracing_count() <= 2  # the second trace finds what the first one has cached


def test_from_specs_the_message_names_the_line():
    values = np.zeros(3)

    @tracehost.function(
        input_signature=[tracehost.TensorSpec([1]), tracehost.TensorSpec([], torch.int64)]
    )
    def f(x, n):
        for _ in range(n):
            values[0] = 1  # here
        return x

    with pytest.raises(tracehost.StagingError) as caught:
        f.get_concrete_function()
    with open(__file__) as source:
        line = next(n for n, text in enumerate(source, 1) if text.rstrip().endswith("# here"))
    assert str(caught.value) == (
        f"the body of the for at test_attempts.py:{line - 1} changes an object of type numpy.ndarray at "
        f"test_attempts.py:{line}, and the loop is part of the graph, which can't do that. Do it behind the loop, or "
        "write the loop over Python values."
    )
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
    for turns, hits in (
        (3, 0),
        (3, 1),
        (300, 1),
        (300, 1),
    ):  # 300: the call continues as plain Python
        assert f(torch.zeros(1), torch.tensor(turns)) == turns
        assert f.stats()["hits"] == hits


def moving_average(samples):
    window, averages = [torch.zeros(()), torch.zeros(())], []
    for sample in samples:
        window.append(sample)
        window.pop(0)
        averages.append(sum(window) / 2)  # the first attempt ends here: this is a list of the graph
    return torch.stack(averages)


def test_a_second_attempt_begins_as_the_first_one():
    f = tracehost.function(moving_average)
    with pytest.raises(tracehost.StagingError, match="changes the list 'window' in place"):
        f.get_concrete_function(tracehost.TensorSpec([None]))
    for size in (4, 3, 4):
        x = torch.arange(float(size))
        assert torch.equal(f(x), moving_average(x))
