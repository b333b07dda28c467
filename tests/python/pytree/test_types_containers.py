"""Containers as arguments and results: what they are compared by, and that they come back."""

import collections
import dataclasses
import functools
import types

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces
from types_support import (
    AttrsLike,
    Base,
    Derived,
    Frozen,
    OwnMapping,
    Pair,
    Point,
    Registered,
    Slots,
    Table,
    Words,
    traces,
    with_attributes,
)

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)
A, B = torch.ones(2), torch.zeros(2)


def counted(items, maxlen=None):
    return collections.deque(items, maxlen)


def default(factory, **items):
    return collections.defaultdict(factory, **items)


EQUAL = {
    "NamedTuple": (Point(A, 1), Point(B, 1)),
    "dataclass with pseudo-fields": (Base(A), Base(B, 7)),
    "inheritance, a field not set": (Derived(A, 2), Derived(B, 2)),
    "slots": (Slots(A), Slots(B)),
    "frozen": (Frozen(A), Frozen(B)),
    "attrs": (AttrsLike(A, 1), AttrsLike(B, 1)),
    "OrderedDict": (collections.OrderedDict(a=A), collections.OrderedDict(a=B)),
    "defaultdict": (default(list, a=A), default(list, a=B)),
    "Counter": (collections.Counter("aab"), collections.Counter("aab")),
    "deque": (counted([A, 1], 3), counted([B, 1], 3)),
    "list subclass": (Words([A, 1]), Words([B, 1])),
    "with attributes": (with_attributes(Words([A]), n=1), with_attributes(Words([B]), n=1)),
    "dict subclass": (Table(a=A), Table(a=B)),
    "MappingProxyType": (types.MappingProxyType({"a": A}), types.MappingProxyType({"a": B})),
    "Mapping": (OwnMapping({"a": A}), OwnMapping({"a": B})),
    "UserDict": (collections.UserDict(a=A), collections.UserDict(a=B)),
    "ChainMap": (collections.ChainMap({"a": A}), collections.ChainMap({"a": B})),
    "slice": (slice(1, None), slice(1, None)),
    "slice of tensors": (slice(A, None), slice(B, None)),
    "range": (range(1, 9, 2), range(1, 9, 2)),
    "frozenset": (frozenset([1]), frozenset([1])),
    "torch.Size": (torch.Size([1, 2]), torch.ones(1, 2).shape),
    "return type": (torch.max(torch.ones(2, 2), 0), torch.max(torch.zeros(2, 2), 0)),
    "partial": (functools.partial(pow, 2, k=A), functools.partial(pow, 2, k=B)),
    "registered": (Pair(A, [1], ["note"]), Pair(B, [1], ["note"])),
    "registered dataclass": (Registered(A), Registered(B)),
    "bytearray": (bytearray(b"ab"), bytearray(b"ab")),
    "set in a context": (Pair(A, 1, {1, 2}), Pair(B, 1, {1, 2})),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_values_are_one_trace(name):
    f = tracehost.function(lambda x, v: x * 2)
    a, b = EQUAL[name]
    assert traces(f, (X, a), (X, b), (X, a)) == "100"
    assert traces(f, (X, [a]), (X, [b]), (X, {"k": a})) == "101"


def reordered():
    value = collections.OrderedDict(a=1, b=1)
    value.move_to_end("a")
    return value


def late():
    value = Derived(A, 2)
    value.late = 1
    return value


DIFFERENT = {
    "namedtuples of one name": (
        collections.namedtuple("P", "x y")(1, 2),
        collections.namedtuple("P", "x y")(1, 2),
    ),
    "a field that is set later": (Derived(A, 2), late()),
    "dataclass and derived": (Base(A), Derived(A)),
    "an attribute that is no field": (Base(A), with_attributes(Base(A), note=1)),
    "its value": (with_attributes(Base(A), note=1), with_attributes(Base(A), note=2)),
    "a list's attribute": (Words([A]), with_attributes(Words([A]), note=1)),
    "attrs": (AttrsLike(A, 1), AttrsLike(A, 2)),
    "default_factory": (default(list, a=A), default(int, a=A)),
    "no default_factory": (default(list, a=A), default(None, a=A)),
    "Counter": (collections.Counter("aab"), collections.Counter("abb")),
    "move_to_end": (collections.OrderedDict(a=1, b=1), reordered()),
    "maxlen": (counted([1], 3), counted([1], 4)),
    "deque and list": (counted([1]), [1]),
    "proxy": (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})),
    "proxy and dict": (types.MappingProxyType({"a": 1}), {"a": 1}),
    "Mapping": (OwnMapping({"a": 1}), OwnMapping({"a": 2})),
    "types in a slice": (slice(1, 2), slice(1, 2.0)),
    "range with the same items": (range(0, 3, 2), range(0, 4, 2)),
    "frozenset": (frozenset([1]), frozenset([2])),
    "types in a frozenset": (frozenset([1]), frozenset([1.0])),
    "partial's function": (functools.partial(pow, 2), functools.partial(max, 2)),
    "partial's argument": (functools.partial(pow, 2), functools.partial(pow, 3)),
    "partial's keyword": (functools.partial(pow, k=2), functools.partial(pow, j=2)),
    "a registered one's child": (Pair(1, 2), Pair(1, 3)),
    "a registered one's context": (Pair(1, 2, "a"), Pair(1, 2, "b")),
    "an absent child": (Registered(1, 2), Registered(1)),
    "bytearray": (bytearray(b"ab"), bytearray(b"ac")),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_values_are_two_traces(name):
    f = tracehost.function(lambda x, v: x * 2)
    a, b = DIFFERENT[name]
    assert traces(f, (X, a), (X, b), (X, a), (X, b)) == "1100"


def test_an_array_of_bytes_that_changes_is_seen():
    f = tracehost.function(lambda x, b: x * b[0])
    data = bytearray([2])
    assert f(X, data).tolist() == [0.0, 2.0, 4.0]
    data[0] = 3
    assert f(X, data).tolist() == [0.0, 3.0, 6.0]


def test_a_proxy_is_read_again():
    f = tracehost.function(lambda x, p: x * p["k"])
    own = {"k": 2}
    proxy = types.MappingProxyType(own)
    assert f(X, proxy).tolist() == [0.0, 2.0, 4.0]
    own["k"] = 3
    assert f(X, proxy).tolist() == [0.0, 3.0, 6.0]


def test_partials_made_anew_share_a_trace_and_run():
    def scale(x, by, *, plus):
        return x * by + plus

    f = tracehost.function(lambda g, x: g(x))
    with assert_traces(f, 1):
        for plus in (1.0, 2.0):
            made = functools.partial(scale, by=3, plus=torch.tensor(plus))
            assert_same(f(made, X), X * 3 + plus)


# ---- texts -----------------------------------------------------------------------------------------


def test_how_they_are_written():
    f = tracehost.function(lambda v: 1)
    f(
        [
            default(list, a=1),
            counted([1], 5),
            counted([], 5),
            with_attributes(Base(2), note=3),
            Pair(1, 2, "c"),
            slice(1, 2),
        ]
    )
    expected = (
        "(v=[defaultdict({'a': 1}, default_factory=<class list>), deque(1, maxlen=5), deque(maxlen=5), "
        "Base(x=2, note=3), Pair(1, 2), slice(start=1, stop=2, step=None)])"
    )
    assert tracehost.events()[-1].signature == expected


# ---- SimpleNamespace -------------------------------------------------------------------------------


def space(**attributes):
    return types.SimpleNamespace(**attributes)


def test_a_namespace_is_compared_by_its_attributes():
    f = tracehost.function(lambda s: s.x * s.n)
    calls = [
        (space(x=A, n=2),),
        (space(x=B, n=2),),
        (space(x=A, n=3),),
        (space(x=A, n=2, more=None),),
        (space(n=2, x=A),),
        (space(x=torch.ones(3), n=2),),
        (space(x=A, n=2),),
    ]
    assert traces(f, *calls) == "1011110"
    assert torch.equal(f(space(x=A + 1, n=2)), (A + 1) * 2)
    assert f.specializations()[0].signature == "(s=SimpleNamespace(x=float32[2], n=2))"


def test_a_namespace_comes_back():
    f = tracehost.function(lambda x: space(x=x + 1, inner=space(n=3)))
    with assert_traces(f, 1):
        for x in (A, B):
            made = f(x)
            assert type(made) is types.SimpleNamespace
            assert list(vars(made)) == ["x", "inner"]
            assert_same(made.x, x + 1)
            assert made.inner == space(n=3)


def test_a_namespace_of_arrays_and_of_specs():
    import numpy

    f = tracehost.function(lambda s: s.x * 2)
    given = space(x=numpy.ones(2, numpy.float32))
    with assert_traces(f, 1):
        assert_same(f(given), A * 2)
        assert isinstance(given.x, numpy.ndarray)
        assert_same(f(space(x=B)), B * 2)
    cf = f.get_concrete_function(space(x=tracehost.TensorSpec([None])))
    assert_same(cf(space(x=torch.ones(5))), torch.full((5,), 2.0))


def test_a_body_that_changes_a_namespace_is_rejected():
    @tracehost.function
    def f(s):
        s.n += 1
        return s.x

    with pytest.raises(tracehost.TraceError, match="changes its argument 's'"):
        f(space(x=A, n=1))


@dataclasses.dataclass
class Record:
    x: object
    y: object = 2.0


def sum_of(r):
    return r.x + r.y


def test_fields_are_read_as_the_object_itself_reads_them():
    class Own(Record):
        pass

    f = tracehost.function(sum_of)

    def check(r, count):
        assert_same(f(r), sum_of(r))
        assert f.tracing_count() == count

    check(Own(X, A[0]), 1)
    check(Own(X + 1, A[1]), 1)
    turned = Own(X, A[0])
    del turned.x
    turned.x = X + 2  # behind y in its dict
    check(turned, 1)
    more = Own(X, A[0])
    more.z = 1
    check(more, 2)
    del more.z
    check(more, 1 + 1)
    bare = Own(X)
    check(bare, 3)
    del bare.y  # the class has it
    check(bare, 3)
    Own.y = 3.0
    check(bare, 4)
    check(Own(X, A[0]), 4)
    Own.y = property(lambda self: 7.0)
    check(more, 5)
    del Own.y
    check(more, 5)
    Own.__getattribute__ = lambda self, name: (
        9.0 if name == "y" else object.__getattribute__(self, name)
    )
    check(more, 6)
    del Own.__getattribute__
    check(more, 6)


def test_a_field_whose_comparison_changes_the_object_is_read_as_it_is_then():
    class Word(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            turned = current[0]
            if turned is not None:
                current[0] = None
                turned.__dict__ = {"x": turned.x, "y": X * 10}
            return str.__eq__(self, other)

    current = [None]
    f = tracehost.function(lambda r: r.y + len(r.x))
    first = Record(Word("word"), X)
    with assert_traces(f, 1):
        assert_same(f(first), X + 4)
        second = Record(Word("word"), X * 2)
        current[0] = second
        assert_same(f(second), X * 10 + 4)
