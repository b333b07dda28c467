"""Arguments that are no containers: what they are compared by, and which are rejected."""

import array
import ctypes
import enum
import types

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces
from types_support import Key, traces, with_attributes

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


class Level(enum.IntEnum):
    low = 1
    high = 2


class Flags(enum.Flag):
    a = 1
    b = 2


class Number(int):
    pass


class Real(float):
    pass


class Text(str):
    pass


LEAVES = {
    "IntEnum": (Level.low, Level.high),
    "Flag": (Flags.a | Flags.b, Flags.a),
    "int subclass": (Number(1), Number(2)),
    "float subclass": (Real(1), Real(2)),
    "its nan": (Real("nan"), Real(2)),
    "its attribute": (with_attributes(Text("a"), k=1), with_attributes(Text("b"), k=1)),
    "complex": (1 + 2j, 1 - 2j),
    "layout": (torch.strided, torch.sparse_coo),
    "class": (int, Number),
    "builtin": (max, min),
    "module": (torch, types),
}


@pytest.mark.parametrize("name", LEAVES)
def test_leaves_by_value(name):
    f = tracehost.function(lambda x, v: x * 2)
    a, b = LEAVES[name]
    assert traces(f, (X, a), (X, b), (X, a), (X, b)) == "1100"


def test_a_nan_of_a_class_of_its_own_equals_itself():
    f = tracehost.function(lambda x, v: x * 2)
    assert traces(f, (X, Real("nan")), (X, Real("nan"))) == "10"


def test_attributes_of_a_str_are_guarded():
    f = tracehost.function(lambda x, s: x * s.k)
    assert f(X, with_attributes(Text("a"), k=2)).tolist() == [0.0, 2.0, 4.0]
    assert f(X, with_attributes(Text("a"), k=3)).tolist() == [0.0, 3.0, 6.0]


def test_equal_objects_do_not_come_in_each_others_place():
    body = lambda x, a, b: x * a.w + b.w  # noqa: E731
    f = tracehost.function(body)
    one, two = Key(torch.tensor(2.0)), Key(torch.tensor(3.0))
    with assert_traces(f, 2):
        for _ in range(2):
            for a, b in ((one, one), (one, two), (two, one), (two, two)):
                assert_same(f(X, a, b), body(X, a, b))


REFUSED = {
    "set": ({1}, "a set has no fixed order. Use a tuple, or sorted(...) of it."),
    "generator": ((i for i in range(2)), "a generator is used up by the first call."),
    "iterator": (iter([1]), "a list_iterator is used up by the first call."),
    "memoryview": (memoryview(b"ab"), "a memoryview changes without notice."),
    "array": (array.array("i", [1]), "an array.array changes without notice."),
    "ctypes number": (ctypes.c_int(1), "a c_int of ctypes changes without notice."),
    "ctypes array": ((ctypes.c_int * 2)(), "a c_int_Array_2 of ctypes changes without notice."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_another_thing_at_the_next_call_is_rejected(name):
    value, text = REFUSED[name]
    f = tracehost.function(lambda x, v: x)
    for argument in (value, [value], {"k": value}):
        with pytest.raises(tracehost.SignatureError) as caught:
            f(X, argument)
        assert str(caught.value).startswith(f"argument 'v': {text}")
    assert f.stats()["live"] == 0


def test_weak_references_are_rejected_dead_or_alive():
    import weakref

    class Thing:
        pass

    made = Thing()
    reference, proxy = weakref.ref(made), weakref.proxy(made)
    f = tracehost.function(lambda x, v: x)
    for alive in (True, False):
        for value in (reference, proxy):
            with pytest.raises(tracehost.SignatureError, match="may be dead at the next call"):
                f(X, value)
        if alive:
            del made


def test_what_only_claims_to_be_a_tensor_is_none():
    import unittest.mock
    import weakref

    t = torch.ones(2)
    f = tracehost.function(lambda x, v: x * 2)
    with pytest.raises(tracehost.SignatureError):
        f(X, weakref.proxy(t))
    mock = unittest.mock.Mock(spec=torch.Tensor)
    assert isinstance(mock, torch.Tensor)
    assert traces(f, (X, mock), (X, mock)) == "10"
