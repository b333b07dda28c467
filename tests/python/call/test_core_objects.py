"""Objects as arguments: by identity, or by the equality that their type defines."""

import copy
import gc
import types

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


def traces(f, *calls):
    """How many of the calls traced, one digit each."""
    result = ""
    for args in calls:
        before = f.tracing_count()
        f(*args)
        result += str(f.tracing_count() - before)
    return result


def test_objects_are_compared_by_identity_and_not_kept_alive():
    class Options:
        pass

    f = tracehost.function(lambda x, o: x * 2)
    for count in range(1, 30):
        made = Options()  # may get the address of the last one
        assert traces(f, (X, made), (X, made)) == "10", count
        del made
    gc.collect()
    assert f.stats()["live"] <= 2  # what can't match again goes with the next trace


def test_objects_with_eq_and_hash_are_compared_by_them():
    class Key:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return type(other) is Key and self.value == other.value

        def __hash__(self):
            return 1

    f = tracehost.function(lambda x, k: x * 2)
    assert traces(f, (X, Key(1)), (X, Key(1)), (X, Key(2)), (X, Key(2)), (X, Key(1))) == "10100"


def test_an_eq_that_raises_is_unequal():
    class Touchy:
        armed = False

        def __eq__(self, other):
            if Touchy.armed:
                raise ValueError("not now")
            return True

        def __hash__(self):
            return 1

    f = tracehost.function(lambda x, k: x * 2)
    with assert_traces(f, 2):
        assert traces(f, (X, Touchy()), (X, Touchy())) == "10"
        Touchy.armed = True
        assert torch.equal(f(X, Touchy()), X * 2)


def test_an_eq_that_calls_the_function():
    class Calls:
        def __eq__(self, other):
            f(X, 1)
            return True

        def __hash__(self):
            return 1

    f = tracehost.function(lambda x, k: x * 2)
    with assert_traces(f, 2):
        f(X, Calls())
        assert torch.equal(f(X, Calls()), X * 2)


def test_bound_methods_by_instance_and_function():
    class Ops:
        def one(self, x):
            return x + 1

        def two(self, x):
            return x + 2

    a, b = Ops(), Ops()
    f = tracehost.function(lambda x, op: op(x))
    assert traces(f, (X, a.one), (X, a.one), (X, a.two), (X, b.one), (X, a.one)) == "10110"
    assert torch.equal(f(X, a.two), X + 2)


def test_a_module_type_object_may_be_an_argument():
    f = tracehost.function(lambda x, space: space.scale * x)
    space = types.SimpleNamespace(scale=2.0)
    assert torch.equal(f(X, space), X * 2)
    space.scale = 3.0
    assert torch.equal(f(X, space), X * 3)
    assert torch.equal(f(X, copy.copy(space)), X * 3)


def test_a_type_says_what_its_values_are_compared_by():
    class Shape:
        def __init__(self, kind, note):
            self.kind, self.note = kind, note

        def __tracehost_type__(self):
            return self.kind

    f = tracehost.function(lambda x, s: x * len(s.kind))
    calls = [(X, Shape("a", 1)), (X, Shape("a", 2)), (X, Shape("bb", 1)), (X, Shape("a", 3))]
    assert traces(f, *calls) == "1010"
