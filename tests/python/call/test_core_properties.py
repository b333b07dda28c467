"""For any structure of tensors and literals: an equal call hits, any change of it traces."""

import collections
import copy
import dataclasses

import pytest
import torch
import tracehost
from core_support import assert_same, fresh, rebuild, tensors
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tracehost.testing import assert_traces

pytestmark = [
    pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning"),
    pytest.mark.timeout(600),
]
thorough = settings(
    max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Record:
    x: object
    y: object = None


def echo(tree):
    return tree


def doubled(tree):
    return rebuild(tree, lambda v: v * 2 if isinstance(v, torch.Tensor) else v)


def make_tensor(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool]))
    t = torch.zeros(shape, dtype=dtype)
    return t.requires_grad_(dtype.is_floating_point and draw(st.booleans()))


tensor = st.composite(make_tensor)()
literal = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.complex_numbers(),
    st.sampled_from([torch.float32, torch.int8, torch.device("cpu"), torch.device("meta"), ...]),
)
key = st.one_of(st.text(max_size=2), st.integers(-2, 2), st.none())


def containers(inner):
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(key, inner, max_size=3),
        st.dictionaries(key, inner, max_size=2).map(collections.OrderedDict),
        st.tuples(inner, inner).map(Pair._make),
        st.builds(Record, inner, inner),
    )


leaf = st.one_of(tensor, literal)
tree = st.recursive(leaf, containers, max_leaves=12)


def copied(value):
    """Equal, with other tensors and other containers."""
    return fresh(copy_literals(value))


def copy_literals(value):
    # ints beyond the small ones, floats and strings become other objects
    def leaf_copy(v):
        if isinstance(v, float):
            return float.fromhex(v.hex())
        if isinstance(v, str):
            return "".join(list(v))
        return v

    return rebuild(value, leaf_copy)


@thorough
@given(tree)
def test_an_equal_structure_hits_and_comes_back(value):
    f = tracehost.function(doubled)
    with assert_traces(f, 1):
        for _ in range(3):
            call = copied(value)
            assert_same(f(call), doubled(call))


@thorough
@given(tree)
def test_a_structure_passes_through_with_its_very_tensors(value):
    f = tracehost.function(echo)
    with assert_traces(f, 1):
        for _ in range(2):
            call = copied(value)
            got = f(call)
            assert_same(got, call)
            assert all(a is b for a, b in zip(tensors(got), tensors(call)))


def leaves(value):
    """Paths of all leaves, as lists of steps."""
    if isinstance(value, (list, tuple)):
        return [[i, *rest] for i, v in enumerate(value) for rest in leaves(v)]
    if isinstance(value, dict):
        return [[k, *rest] for k, v in value.items() for rest in leaves(v)]
    if isinstance(value, Record):
        return [[n, *rest] for n in ("x", "y") for rest in leaves(getattr(value, n))]
    return [[]]


def put(value, path, new):
    """`value` with another leaf at `path`."""
    if not path:
        return new(value)
    step, *rest = path
    if isinstance(value, dict):
        return type(value)((k, put(v, rest, new) if k == step else v) for k, v in value.items())
    if isinstance(value, Record):
        return dataclasses.replace(value, **{step: put(getattr(value, step), rest, new)})
    items = [put(v, rest, new) if i == step else v for i, v in enumerate(value)]
    return Pair._make(items) if isinstance(value, Pair) else type(value)(items)


def same_leaf(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return (a.shape, a.dtype, a.requires_grad) == (b.shape, b.dtype, b.requires_grad)
    if isinstance(a, complex):
        return same_leaf(a.real, b.real) and same_leaf(a.imag, b.imag)
    if isinstance(a, float):
        return a.hex() == b.hex() if a == a or b == b else True
    return a == b


@thorough
@given(tree, leaf, st.data())
def test_another_leaf_traces(value, other, data):
    paths = leaves(value)
    assume(paths)
    path = data.draw(st.sampled_from(paths))
    old = []
    changed = put(value, path, lambda v: old.append(v) or other)
    assume(not same_leaf(old[0], other))
    f = tracehost.function(doubled)
    with assert_traces(f, 2):
        f(copied(value))
        assert_same(f(copied(changed)), doubled(copied(changed)))
    with assert_traces(f, 0):
        assert_same(f(copied(value)), doubled(copied(value)))


CHANGES = {
    "wrapped in a list": lambda v: [v],
    "wrapped in a tuple": lambda v: (v,),
    "wrapped in a dict": lambda v: {"k": v},
    "beside None": lambda v: (v, None),
    "in a Record": lambda v: Record(v),
}


@thorough
@given(tree, st.sampled_from(sorted(CHANGES)), st.data())
def test_another_structure_traces(value, change, data):
    paths = leaves(value)
    assume(paths)
    path = data.draw(st.sampled_from(paths))
    changed = put(value, path, CHANGES[change])
    f = tracehost.function(doubled)
    with assert_traces(f, 2):
        f(copied(value))
        assert_same(f(copied(changed)), doubled(copied(changed)))


@thorough
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.lists(st.integers(0, 3)))
def test_alias_patterns_are_told_apart(first, second):
    def canonical(pattern):
        order = list(dict.fromkeys(pattern))
        return [order.index(p) for p in pattern]

    f = tracehost.function(lambda ts: [t + 0 for t in ts])
    pool = [torch.full((2,), float(i)) for i in range(4)]
    with assert_traces(f, (1 if canonical(first) == canonical(second) else 2)):
        for pattern in (first, second, first):
            got = f([pool[p] for p in pattern])
            assert [int(t[0]) for t in got] == pattern


@thorough
@given(tree)
def test_a_deep_copy_is_equal(value):
    assume(all(t.is_leaf for t in tensors(value)))
    f = tracehost.function(lambda tree: 1)
    with assert_traces(f, 1):
        assert f(value) == f(copy.deepcopy(value)) == 1
