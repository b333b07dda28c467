"""For argument trees of all kinds: which calls share a graph, by a model of the rules."""

import collections
import functools
import types

import pytest
import torch
import tracehost
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracehost.testing import assert_traces
from types_model import Equal, Level, Model, Number, Real, Thing, Typed
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
    with_attributes,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning"),
]


def examples(count):
    return settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


THING, OTHER = Thing(), Thing()
EQUAL = [Equal(1), Equal(1), Equal(2)]
TYPED = [Typed(1), Typed(1), Typed(2)]
NUMBERS = [Number(1), Number(1), Real(1), Real("nan"), Real("nan")]
LEAVES = [
    *(lambda t, i=i: t[i] for i in range(6)),
    *(lambda t, v=v: v for v in (*EQUAL, *TYPED, *NUMBERS, THING, OTHER)),
    *(lambda t, v=v: v for v in (None, True, 1, 1.0, 0.0, -0.0, float("nan"), 2**70, 1 + 0j)),
    *(lambda t, v=v: v for v in ("a", b"a", torch.float32, torch.device("cpu"), int, Level.low)),
    *(lambda t, v=v: v for v in (slice(1), slice(1.0), range(1), range(0, 1, 2), len, max)),
    *(lambda t, v=v: v for v in (frozenset(), frozenset([1]), frozenset([1.0]), frozenset(["a"]))),
    *(lambda t, v=v: v for v in (torch.Size([1]), torch.Size([2]))),
    lambda t: -0.0 * 1,
    lambda t: float("1.0"),
    lambda t: THING.method,
    lambda t: bytearray(b"a"),
    lambda t: bytearray(b"b"),
    lambda t: collections.Counter("ab"),
    lambda t: collections.Counter("ba"),
]
CONTEXTS = [None, 1, 1.0, "a", {1, 2}, {2, 3}, [1], ["a"]]


def late(x, y):
    value = Derived(x, y)
    value.late = 2
    return value


def contexts(note):
    """A registered class whose context is made again."""
    return lambda *c: Pair(c[0], c[-1], type(note)(note) if isinstance(note, list | set) else note)


MAKERS = [
    lambda *c: c,
    lambda *c: [*c],
    lambda *c: dict(zip("ab", c)),
    lambda *c: dict(zip("ba", c[1::-1])),
    lambda *c: {("k", 1): c[0], None: c[-1]},
    lambda *c: {EQUAL[0]: c[0]},
    lambda *c: {EQUAL[1]: c[0]},
    lambda *c: collections.OrderedDict(zip("ab", c)),
    lambda *c: collections.OrderedDict(zip("ba", c[1::-1])),
    lambda *c: collections.defaultdict(list, zip("ab", c)),
    lambda *c: collections.defaultdict(int, zip("ab", c)),
    lambda *c: collections.deque(c),
    lambda *c: collections.deque(c, 5),
    lambda *c: collections.deque(c, 6),
    lambda *c: Point(*c[:2]),
    lambda *c: Base(c[0]),
    lambda *c: with_attributes(Base(c[0]), note=c[-1]),
    lambda *c: Derived(c[0], c[-1]),
    lambda *c: late(c[0], c[-1]),
    lambda *c: Slots(c[0], c[-1]),
    lambda *c: Frozen(c[0], c[-1]),
    lambda *c: AttrsLike(c[0], c[-1]),
    lambda *c: with_attributes(AttrsLike(c[0], 1), more=c[-1]),
    lambda *c: Words(c),
    lambda *c: with_attributes(Words(c[1:]), n=c[0]),
    lambda *c: Table(zip("ab", c)),
    lambda *c: types.MappingProxyType(dict(zip("ab", c))),
    lambda *c: OwnMapping(dict(zip("ab", c))),
    lambda *c: collections.UserDict(zip("ab", c)),
    lambda *c: collections.ChainMap(dict(zip("ab", c))),
    lambda *c: slice(*c[:3]),
    lambda *c: functools.partial(max, *c),
    lambda *c: functools.partial(max, k=c[0]),
    lambda *c: functools.partial(min, *c),
    *map(contexts, CONTEXTS),
    lambda *c: Registered(c[0]),
    lambda *c: Registered(c[0], c[-1]),
]

# A tree as (place among MAKERS, children), or a place among LEAVES.
alike = st.integers(0, 3)  # tensors: they are distinguished by where they appear again
leaf = alike | st.integers(0, len(LEAVES) - 1)
node = lambda inner: st.tuples(  # noqa: E731
    st.integers(0, len(MAKERS) - 1), st.lists(inner, min_size=1, max_size=3)
)
tree = st.recursive(leaf, node, max_leaves=6)


def build(plan, tensors):
    if isinstance(plan, int):
        return LEAVES[plan](tensors)
    maker, children = plan
    return MAKERS[maker](*(build(c, tensors) for c in children))


def size(plan):
    return 1 if isinstance(plan, int) else 1 + sum(map(size, plan[1]))


def changed(plan, at, change):
    """With `change` of the subtree at a place."""
    if at == 0:
        return change(plan)
    at -= 1
    maker, children = plan
    result = []
    for child in children:
        inside = 0 <= at < size(child)
        result.append(changed(child, at, change) if inside else child)
        at -= size(child)
    return maker, result


@st.composite
def relatives(draw, count):
    """Plans that differ in a place or two, some not at all."""
    first = draw(tree)
    plans = [first]
    for _ in range(count - 1):
        plan = draw(st.sampled_from(plans))
        at = draw(st.integers(0, size(plan) - 1))
        other = draw(alike | leaf | node(leaf))
        how = draw(st.sampled_from(["same", "another", "neighbour"]))

        def change(old, other=other, how=how):
            if how == "neighbour":  # most like it: another maxlen, key order, sign of zero ...
                if isinstance(old, int):
                    return (old + 1) % len(LEAVES)
                return (old[0] + 1) % len(MAKERS), old[1]
            return old if how == "same" else other

        plans.append(changed(plan, at, change))
    return plans


def pool():
    """The first four are alike, the last two are not."""
    alike = [torch.full((2,), float(i)) for i in range(4)]
    return [*alike, torch.ones(3), torch.ones(2, requires_grad=True)]


def arguments(plans):
    """Each with containers and tensors of its own."""
    return [build(plan, pool()) for plan in plans]


def ignore(tree):
    return 1


def served(f, value):
    try:
        f(value)
    except tracehost.TraceError:
        return False
    return True


def agree(plans):
    """Of all pairs, flattened and compared, verified, and by the model: three times the same answer."""
    first, second = arguments(plans), arguments(plans)
    keys = [Model().key(v) for v in first]
    for i, one in enumerate(first):
        expected = [key == keys[i] for key in keys]
        f = tracehost.function(ignore)
        with assert_traces(f, 1):
            f(one)
            assert [f.explain(v).hit for v in second] == expected  # signatures are equal
            with tracehost.stance("fail_on_miss"):
                assert [served(f, v) for v in second] == expected  # what a hot call sees


@examples(300)
@given(relatives(6))
def test_verify_agrees_with_equal_signatures_and_the_model(plans):
    agree(plans)


@examples(200)
@given(st.lists(tree, min_size=8, max_size=8))
def test_so_it_does_for_trees_that_are_not_related(plans):
    agree(plans)


@examples(150)
@given(relatives(4), relatives(4))
def test_and_for_two_parameters(plans, others):
    """An object, or a tensor, may be in both."""

    def both(tensors):
        return [(build(a, tensors), build(b, tensors)) for a in plans[:3] for b in others[:3]]

    pairs = both(pool())
    f = tracehost.function(lambda a, b: 1)
    known = []
    for a, b in pairs:
        model = Model()
        key = (model.key(a), model.key(b))
        assert f.explain(a, b).hit is (key in known)
        before = f.tracing_count()
        f(a, b)
        assert f.tracing_count() == before + (key not in known)
        known.append(key)


@examples(150)
@given(relatives(7))
def test_equality_of_signatures_is_an_equivalence(plans):
    rows = []
    for value in arguments(plans):
        f = tracehost.function(ignore)
        f(value)
        rows.append(tuple(f.explain(v).hit for v in arguments(plans)))
    everyone = range(len(rows))
    assert all(rows[i][i] for i in everyone)
    assert all(rows[i][j] == rows[j][i] for i in everyone for j in everyone)
    assert all(rows[i] == rows[j] for i in everyone for j in everyone if rows[i][j])


@examples(200)
@given(relatives(6))
def test_a_graph_is_right_for_all_calls_that_share_it(plans):
    """What the body saw is in the result: a graph that served another call would give it away."""

    def body(x, tree):
        model = Model()
        key = repr(model.key(tree))
        scaled = [t * (i + 2) + x for i, t in enumerate(model.tensors)]
        return key, scaled

    f = tracehost.function(body)
    x = torch.ones(1)
    keys = set()
    for value in (*arguments(plans), *arguments(plans)):
        for _ in range(2):
            (key, got), (expected_key, expected) = f(x, value), body(x, value)
            assert key == expected_key
            assert [t.tolist() for t in got] == [t.tolist() for t in expected]
        keys.add(expected_key)
    assert f.tracing_count() == len(keys)


@examples(200)
@given(tree, st.lists(st.integers(1, 5), min_size=12, max_size=12))
def test_a_dynamic_signature_is_above_those_it_came_from(plan, sizes):
    """Upper bound of both, and of itself: what it serves makes nothing else dynamic."""

    def tensors(sizes):
        return [torch.ones(n, 2) for n in sizes]

    one, two = build(plan, tensors(sizes[:6])), build(plan, tensors(sizes[6:]))
    f = tracehost.function(ignore, reduce_retracing=True)
    f(one)
    f(two)
    count = f.tracing_count()
    shapes = {Model().key(one), Model().key(two)}
    assert count == len(shapes)
    for value in (one, two, build(plan, tensors(sizes[:6])), build(plan, tensors(sizes[6:]))):
        assert f.explain(value).hit
        f(value)
    assert f.tracing_count() == count


shape = st.none() | st.lists(st.none() | st.integers(0, 2), max_size=3)
spec = st.builds(
    tracehost.TensorSpec,
    shape,
    st.sampled_from([torch.float32, torch.int64]),
    st.sampled_from([None, "cpu", "meta"]),
)


@examples(400)
@given(spec, st.lists(spec, max_size=3))
def test_the_common_supertype_of_specs_is_a_bound_and_idempotent(one, others):
    join = one.most_specific_common_supertype(others)
    same_dtype = all(o.dtype == one.dtype for o in others)
    assert (join is not None) is same_dtype
    if join is None:
        return
    everyone = [one, *others]
    assert all(s.is_subtype_of(join) for s in everyone)
    assert join.most_specific_common_supertype([join, *everyone]) == join
    assert one.most_specific_common_supertype([one]) == one
    for i, s in enumerate(everyone):
        rest = [*everyone[:i], *everyone[i + 1 :]]
        assert s.most_specific_common_supertype(rest) == join
