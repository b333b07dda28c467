"""py_function: how long the graph keeps the callable; threads."""

import gc
import threading
import weakref

import pytest
import torch
import tracehost
from core_support import assert_same, counts
from tracehost import py_function

pytestmark = pytest.mark.usefixtures("no_warnings")

X = torch.arange(3.0)
F32 = torch.float32


# ---- lifetime and threads ------------------------------------------------------------------------


class Double:
    def __call__(self, t):
        return t * 2


def test_the_callable_goes_with_its_specialization():
    gone = []

    def body(x, n):
        double = Double()
        weakref.finalize(double, gone.append, n)
        return py_function(double, [x], F32)

    f = tracehost.function(body, limit=1, watch=False)
    f(X, 1), f(X, 1)
    assert gone == []
    f(X, 2)
    assert gone == [1]
    f.clear()
    assert gone == [1, 2]


def test_a_cycle_through_the_function_is_collected():
    def make():
        def body(x):
            return py_function(lambda t: t * len(f.name), [x], F32)

        f = tracehost.function(body, name="abc")
        return f

    f = make()
    assert_same(f(X), X * 3)
    assert_same(f(X), X * 3)
    gone = weakref.ref(f.python_function)
    gc.collect()
    assert gone() is not None
    assert_same(f(X), X * 3)
    del f
    gc.collect()
    assert gone() is None


def test_a_graph_that_is_kept_keeps_the_callable():
    def make():
        def body(x):
            return py_function(lambda t: t * len(f.name), [x], F32)

        f = tracehost.function(body, name="abc")
        f(X)
        return f.get_concrete_function(X)

    concrete = make()
    gc.collect()
    assert_same(concrete(X), X * 3)
    graph = concrete.graph
    del concrete
    gc.collect()
    assert "tracehost::py_function" in str(graph)
    del graph
    gc.collect()


def test_threads_hit_at_once():
    barrier = threading.Barrier(4)

    def meet(t):
        barrier.wait(60)  # all four are in it
        return t * 2

    count = [0]

    def first(t):
        count[0] += 1
        return t * 2 if count[0] == 1 else meet(t)

    f = tracehost.function(lambda x: py_function(first, [x], F32) + 1, watch=False)
    f(X)
    results = [None] * 4

    def work(i):
        results[i] = [f(X + i) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, got in enumerate(results):
        for y in got:
            assert_same(y, (X + i) * 2 + 1)
    assert counts(f) == (1, 12, 1)
