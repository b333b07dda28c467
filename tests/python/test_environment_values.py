"""Globals and cells that a traced body reads are part of the signature."""

import functools

import pytest
import torch
import tracehost
from environment_support import X, same
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


NUMBER = 2.0

UNRELATED = 1


def read_number(x):
    return x * NUMBER


def test_global_number_is_one_more_trace_and_back_is_a_hit(change):
    f = tracehost.function(read_number)
    same(f, read_number, X)
    change("NUMBER", 3.0)
    same(f, read_number, X)
    assert f.tracing_count() == 2
    change("NUMBER", 2.0)
    same(f, read_number, X)
    assert f.tracing_count() == 2


def test_equal_value_in_a_new_object_is_a_hit(change):
    f = tracehost.function(read_number)
    f(X)
    change("NUMBER", float("2"))
    same(f, read_number, X)
    assert f.tracing_count() == 1


def test_unrelated_global_is_a_hit(change):
    f = tracehost.function(read_number)
    f(X)
    change("UNRELATED", 2)
    change("A_NEW_GLOBAL", 2)
    f(X)
    assert f.tracing_count() == 1


def test_type_of_a_global_counts(change):
    f = tracehost.function(read_number)
    f(X)
    change("NUMBER", 2)
    f(X)
    change("NUMBER", True)
    f(X)
    assert f.tracing_count() == 3


def test_builtin_shadowed_later(change):
    def body(x):
        return x * abs(-2)

    f = tracehost.function(body)
    same(f, body, X)
    change("abs", lambda v: 7)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_cell_rebound():
    k = 2.0

    def body(x):
        return x * k

    f = tracehost.function(body)
    same(f, body, X)
    k = 3.0
    same(f, body, X)
    k = 2.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_many_floats_in_a_cell_are_never_taken_for_each_other():
    k = 0.5

    def body(x):
        return x * k

    f = tracehost.function(body)
    for i in range(200):
        k = float(i % 5) + 0.25
        same(f, body, X)
    assert f.tracing_count() == 5


def test_two_closures_of_one_helper():
    def make(n):
        def scale(x):
            return x * n

        return scale

    twice, thrice = make(2.0), make(3.0)

    def body(x):
        return twice(x) + thrice(x)

    f = tracehost.function(body)
    same(f, body, X)
    thrice.__closure__[0].cell_contents = 4.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_defaults():
    def helper(x, factor=2.0, *, offset=1.0):
        return x * factor + offset

    def body(x):
        return helper(x)

    f = tracehost.function(body)
    same(f, body, X)
    helper.__defaults__ = (3.0,)
    same(f, body, X)
    helper.__kwdefaults__["offset"] = 5.0
    same(f, body, X)
    assert f.tracing_count() == 3


def helper(x):
    return x * NUMBER


def test_helper_reads_a_global(change):
    def body(x):
        return helper(x) + 1

    f = tracehost.function(body)
    same(f, body, X)
    change("NUMBER", 5.0)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_helper_redefined(change):
    def body(x):
        return helper(x)

    f = tracehost.function(body)
    same(f, body, X)
    change("helper", lambda x: x - 1)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_lambda_over_a_module():
    net = nn.Linear(4, 2)
    f = tracehost.function(lambda x: net(x))
    same(f, net, X)
    with torch.no_grad():
        net.weight.add_(1)
    same(f, net, X)
    assert f.tracing_count() == 1


def test_partial():
    def scale(x, k, *, b):
        return x * k + b

    p = functools.partial(scale, k=2.0, b=1.0)

    def body(x):
        return p(x)

    f = tracehost.function(body)
    same(f, body, X)
    p = functools.partial(scale, k=3.0, b=1.0)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_partial_as_the_function():
    table = {"k": 2.0}

    def scale(table, x):
        return x * table["k"]

    f = tracehost.function(functools.partial(scale, table))
    same(f, functools.partial(scale, table), X)
    table["k"] = 3.0
    same(f, functools.partial(scale, table), X)
    assert f.tracing_count() == 2
