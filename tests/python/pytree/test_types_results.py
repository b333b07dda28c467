"""Containers put together again: results, arguments of ConcreteFunctions, arrays that become tensors."""

import collections
import dataclasses
import functools
import types

import numpy as np
import pytest
import torch
import torch.utils._pytree as pytree
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces
from types_support import (
    AttrsLike,
    Base,
    Derived,
    Frozen,
    Key,
    OwnMapping,
    Pair,
    Point,
    Registered,
    Slots,
    Table,
    Words,
    with_attributes,
)

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


def default(factory, **items):
    return collections.defaultdict(factory, **items)


class Queue(collections.deque):
    pass


class Doubled:
    """Registered with torch's pytree; its parts are made again each time."""

    def __init__(self, t):
        self.t = t


pytree.register_pytree_node(
    Doubled,
    lambda d: ([d.t * 2], None),
    lambda children, _: Doubled(children[0] / 2),
    serialized_type_name="test_types_results.Doubled",
)

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
    "deque": lambda t: collections.deque([t, 1], 5),
    "deque subclass": lambda t: with_attributes(Queue([t, 1], 5), n=t, unit="s"),
    "list subclass": lambda t: with_attributes(Words([t]), n=1),
    "dict subclass": lambda t: Table(a=t),
    "MappingProxyType": lambda t: types.MappingProxyType({"a": t}),
    "slice": lambda t: slice(1, t),
    "range": lambda t: range(2, 8),
    "frozenset": lambda t: frozenset([1, "a"]),
    "partial": lambda t: functools.partial(torch.add, t, alpha=2),
    "registered": lambda t: Pair(t, 2, ["note"]),
    "registered dataclass": lambda t: Registered(t),
    "parts made anew": lambda t: Doubled(t),
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
    if isinstance(value, (Pair, AttrsLike, Doubled)):
        return taken(vars(value))
    return value


def vars_of(value):
    return dict(getattr(value, "__dict__", {}))


@pytest.mark.parametrize("name", RESULTS)
def test_results_come_back_as_they_are(name):
    body = RESULTS[name]
    f = tracehost.function(lambda x: body(x * 2))
    with assert_traces(f, 1):
        for value in (1.0, 2.0):
            x = torch.full((2,), value)
            got, expected = f(x), body(x * 2)
            assert type(got) is type(expected)
            assert taken(got) == taken(expected)


def test_a_mapping_of_ones_own_is_made_anew():
    f = tracehost.function(lambda x: OwnMapping({"a": x}))
    with assert_traces(f, 1):
        for k in range(3):
            got = f(X * k)
            assert type(got) is OwnMapping and torch.equal(got["a"], X * k)


# ---- ConcreteFunctions -----------------------------------------------------------------------------

CONCRETE = {
    "registered": (lambda v: v.a * v.b, lambda t: Pair(t, 2, ["n", {1}])),
    "deque": (lambda v: v[0] * v.maxlen, lambda t: collections.deque([t], 3)),
    "list subclass": (lambda v: v[0] * v.n, lambda t: with_attributes(Words([t]), n=2)),
    "OrderedDict": (lambda v: v["a"] * 2, lambda t: collections.OrderedDict(a=t)),
    "defaultdict": (lambda v: v["a"] * 2, lambda t: default(list, a=t)),
    "UserDict": (lambda v: v["a"] * 2, lambda t: collections.UserDict(a=t)),
    "Mapping": (lambda v: v["a"] * 2, lambda t: OwnMapping({"a": t})),
    "MappingProxyType": (lambda v: v["a"] * 2, lambda t: types.MappingProxyType({"a": t})),
    "partial": (lambda v: v(2), lambda t: functools.partial(torch.add, t, alpha=2)),
    "slice": (lambda v: v.start * 2, lambda t: slice(t, 1)),
    "torch.Size": (lambda v: X.expand(v), lambda t: torch.Size([2, 3])),
    "frozenset": (lambda v: X * len(v), lambda t: frozenset([1, 2])),
    "a field not set": (lambda v: v.x * v.y, lambda t: Derived(t, 2)),
    "attrs": (lambda v: v.a * v.b, lambda t: AttrsLike(t, 2)),
}


@pytest.mark.parametrize("name", CONCRETE)
def test_a_concrete_function_takes_them_and_is_inlined_with_them(name):
    body, make = CONCRETE[name]
    concrete = tracehost.function(body).get_concrete_function(make(X))
    outer = tracehost.function(lambda x: concrete(make(x)) + 1)
    for x in (X, X + 1):
        assert_same(concrete(make(x)), body(make(x)))
        assert_same(outer(x), body(make(x)) + 1)
    (described,), _ = concrete.structured_input_signature
    assert type(described) is type(make(X))


def test_a_concrete_function_wants_one_object_where_it_was_traced_with_one():
    one, two = Key(X), Key(X + 1)
    for wrap in (lambda k: k, lambda k: [k]):
        f = tracehost.function(lambda a, b: tensor_of(a) + tensor_of(b))
        concrete = f.get_concrete_function(wrap(one), wrap(one))
        assert concrete(wrap(one), wrap(one)).tolist() == [0.0, 2.0, 4.0]
        assert concrete(wrap(two), wrap(two)).tolist() == [2.0, 4.0, 6.0]
        with pytest.raises(tracehost.SignatureError, match=r"argument 'b': can not cast .* a"):
            concrete(wrap(one), wrap(two))


def tensor_of(value):
    return value[0].w if isinstance(value, list) else value.w


# ---- arrays ----------------------------------------------------------------------------------------

HOLDERS = {
    "NamedTuple": (lambda a: Point(a, 1), lambda v: v.x),
    "deque": (lambda a: Queue([a], 2), lambda v: v[0]),
    "attributes of a tuple": (lambda a: with_attributes(Row((a,)), n=2), lambda v: v[0] * v.n),
    "registered": (lambda a: Pair(a, 1, "n"), lambda v: v.a),
    "attrs": (lambda a: AttrsLike(a, 1), lambda v: v.a),
    "a field not set": (lambda a: Derived(a), lambda v: v.x),
    "partial": (lambda a: functools.partial(torch.add, 1, other=a), lambda v: v.keywords["other"]),
    "slice": (lambda a: slice(a, None), lambda v: v.start),
    "OrderedDict": (lambda a: collections.OrderedDict(k=a), lambda v: v["k"]),
}


class Row(tuple):
    pass


@pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning")
@pytest.mark.parametrize("name", HOLDERS)
def test_arrays_in_them_become_tensors(name):
    make, take = HOLDERS[name]
    seen = []
    f = tracehost.function(lambda v: seen.append(type(v)) or take(v) * 2)
    for n in (1.0, 2.0):
        array = np.full(2, n)
        assert torch.equal(f(make(array)), take(make(torch.as_tensor(array))) * 2)
    assert seen == [type(make(None))]


def test_a_mapping_of_ones_own_can_not_hold_arrays():
    f = tracehost.function(lambda v: v["k"])
    with pytest.raises(tracehost.SignatureError, match="a OwnMapping can't be copied with tensors"):
        f(OwnMapping({"k": np.ones(2)}))
