"""Containers as arguments and results: what they are compared by, and that they come back."""

import collections
import dataclasses
import enum
import functools
import types
import typing

import pytest
import torch
import torch.utils._pytree as pytree
import tracehost
from core_support import assert_same
from types_support import AttrsLike, traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)
A, B = torch.ones(2), torch.zeros(2)


class Point(typing.NamedTuple):
    x: object
    y: object = 0


@dataclasses.dataclass
class Base:
    x: object
    scale: typing.ClassVar[float] = 2.0
    seed: dataclasses.InitVar[int] = 0

    def __post_init__(self, seed):
        pass


@dataclasses.dataclass
class Derived(Base):
    y: object = 1
    late: object = dataclasses.field(init=False)


@dataclasses.dataclass(slots=True)
class Slots:
    x: object
    y: object = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    y: object = 1


class Words(list):
    pass


class Table(dict):
    def __iter__(self):
        raise RuntimeError("not this way")


class OwnMapping(collections.abc.Mapping):
    def __init__(self, items):
        self.items_ = items

    def __getitem__(self, key):
        return self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


class Pair:
    """Registered with torch's pytree."""

    def __init__(self, a, b, note=None):
        self.a, self.b, self.note = a, b, note


pytree.register_pytree_node(
    Pair,
    lambda p: ([p.a, p.b], p.note),
    lambda children, note: Pair(*children, note),
    serialized_type_name="test_types_containers.Pair",
)


@dataclasses.dataclass
class Registered:
    x: object
    y: object = None


torch.export.register_dataclass(Registered, serialized_type_name="test_types_containers.Registered")


def with_attributes(value, **attributes):
    vars(value).update(attributes)
    return value


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
    for plus in (1.0, 2.0):
        made = functools.partial(scale, by=3, plus=torch.tensor(plus))
        assert_same(f(made, X), X * 3 + plus)
    assert f.tracing_count() == 1


# ---- results ---------------------------------------------------------------------------------------

RESULTS = {
    "NamedTuple": lambda t: Point(t, 1),
    "inheritance, a field not set": lambda t: Derived(t, 2),
    "slots": lambda t: Slots(t),
    "frozen": lambda t: Frozen(t, [t]),
    "attributes that are no fields": lambda t: with_attributes(Base(t), note=[t, 1]),
    "attrs": lambda t: AttrsLike(t, 1),
    "OrderedDict": lambda t: collections.OrderedDict(b=t, a=1),
    "defaultdict": lambda t: default(list, a=t),
    "Counter": lambda t: collections.Counter("aab"),
    "deque": lambda t: counted([t, 1], 5),
    "list subclass": lambda t: with_attributes(Words([t]), n=1),
    "dict subclass": lambda t: Table(a=t),
    "MappingProxyType": lambda t: types.MappingProxyType({"a": t}),
    "slice": lambda t: slice(1, t),
    "range": lambda t: range(2, 8),
    "frozenset": lambda t: frozenset([1, "a"]),
    "partial": lambda t: functools.partial(torch.add, t, alpha=2),
    "registered": lambda t: Pair(t, 2, ["note"]),
    "registered dataclass": lambda t: Registered(t),
    "return type": lambda t: torch.max(t.reshape(1, -1), 0),
}


def taken(value):
    """What there is to compare of a result."""
    if isinstance(value, (list, tuple, collections.deque)):
        return [taken(v) for v in value], getattr(value, "maxlen", None), taken(vars_of(value))
    if isinstance(value, (dict, types.MappingProxyType)):
        items = [
            (k, taken(v)) for k, v in dict.items(dict(value) if type(value) is not Table else value)
        ]
        return items, getattr(value, "default_factory", None)
    if isinstance(value, slice):
        return taken([value.start, value.stop, value.step])
    if isinstance(value, functools.partial):
        return taken([value.args, value.keywords]), value.func
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (Base, Slots, Frozen, Registered)):
        names = [f.name for f in dataclasses.fields(value) if hasattr(value, f.name)]
        return [taken(getattr(value, n)) for n in names], taken(vars_of(value))
    if isinstance(value, (Pair, AttrsLike)):
        return taken(vars(value))
    return value


def vars_of(value):
    return dict(getattr(value, "__dict__", {}))


@pytest.mark.parametrize("name", RESULTS)
def test_results_come_back_as_they_are(name):
    body = RESULTS[name]
    f = tracehost.function(lambda x: body(x * 2))
    for value in (1.0, 2.0):
        x = torch.full((2,), value)
        got, expected = f(x), body(x * 2)
        assert type(got) is type(expected)
        assert taken(got) == taken(expected)
    assert f.tracing_count() == 1


def test_a_mapping_of_ones_own_is_no_result():
    f = tracehost.function(lambda x: OwnMapping({"a": x}))
    with pytest.raises(
        TypeError, match="returned a OwnMapping, which a later call could not return"
    ):
        f(X)


# ---- leaves ----------------------------------------------------------------------------------------


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


def test_attributes_of_a_str_are_watched():
    f = tracehost.function(lambda x, s: x * s.k)
    assert f(X, with_attributes(Text("a"), k=2)).tolist() == [0.0, 2.0, 4.0]
    assert f(X, with_attributes(Text("a"), k=3)).tolist() == [0.0, 3.0, 6.0]


def test_equal_objects_do_not_come_in_each_others_place():
    class Key:
        def __init__(self, w):
            self.w = w

        def __eq__(self, other):
            return type(other) is Key

        def __hash__(self):
            return 1

    body = lambda x, a, b: x * a.w + b.w  # noqa: E731
    f = tracehost.function(body)
    one, two = Key(torch.tensor(2.0)), Key(torch.tensor(3.0))
    for _ in range(2):
        for a, b in ((one, one), (one, two), (two, one), (two, two)):
            assert_same(f(X, a, b), body(X, a, b))
    assert f.tracing_count() == 2


REFUSED = {
    "set": ({1}, "a set has no fixed order. Use a tuple, or sorted(...) of it."),
    "generator": ((i for i in range(2)), "a generator is used up by the first call."),
    "iterator": (iter([1]), "a list_iterator is used up by the first call."),
    "memoryview": (memoryview(b"ab"), "a memoryview changes without being told."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_another_thing_at_the_next_call_is_refused(name):
    value, text = REFUSED[name]
    f = tracehost.function(lambda x, v: x)
    for argument in (value, [value], {"k": value}):
        with pytest.raises(tracehost.SignatureError) as caught:
            f(X, argument)
        assert str(caught.value).startswith(f"argument 'v': {text}")
    assert f.stats()["live"] == 0


def test_weak_references_are_refused_dead_or_alive():
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
