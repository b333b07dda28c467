"""Guards on what no instruction of the body shows: objects of C code, order, identity, attributes of tensors and functions;
numbers that hits store; what a staged block must not leave behind."""

import abc
import collections
import ctypes
import functools
import gc
import inspect

import pytest
import torch
import tracehost
from environment_support import X, read_after_changes
from tracehost.testing import assert_traces

# ---- reads ---------------------------------------------------------------------------------------


class Thing:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def holds(**attributes):
    return lambda: Thing(**attributes)


class Key:
    def __init__(self, name, weight):
        self.name, self.weight = name, weight

    def __eq__(self, other):
        return isinstance(other, Key) and self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Meta(type):
    own = 2.0

    @property
    def scale(cls):
        return cls.own


class OfMeta(metaclass=Meta):
    pass


def scaled(x, k=2.0):
    return x * k


def of_another(x, k=2.0):
    return x + k


def helper():
    """A function of its own, so that a change of it is no change of another row's."""
    made = type(scaled)(scaled.__code__, globals(), "made")
    made.__defaults__ = (2.0,)
    return made


class Base(abc.ABC):  # noqa: B024
    pass


def fresh_class():
    return Thing(type=type("Some", (), {}), abstract=abc.ABCMeta("Abstract", (), {}))


def cached():
    calls = []

    @functools.lru_cache
    def table(n):
        calls.append(n)
        return torch.full((4,), float(n + len(calls)))

    return Thing(table=table)


def ordered():
    return collections.OrderedDict(add=lambda x: x + 1, double=lambda x: x * 2)


def each(thing, x):
    for function in thing.values():
        x = function(x)
    return x


def with_view():
    table = {"a": 2.0}
    return Thing(table=table, values=table.values())


def by_keys(thing, x):
    for key, value in thing.table.items():
        x = x * key.weight + value
    return x


def replace_key(thing):
    thing.table.clear()
    thing.table[Key("a", 5.0)] = 1.0


def length_after_a_pop(thing, x):
    thing.table.pop("b", None)
    return x * (len(thing.table) + 1)


def length_after_a_store(thing, x):
    thing.table["t"] = x + 1
    return x * len(thing.table)


# What the body reads of a thing; changes of the thing, each with the traces in all after it.
READS = {
    "an attribute that a function lacks": (
        helper,
        lambda thing, x: x * getattr(thing, "scale", 2.0),
        (lambda thing: setattr(thing, "other", 3.0), 1),
        (lambda thing: setattr(thing, "scale", 3.0), 2),
        (lambda thing: delattr(thing, "scale"), 2),
    ),
    "a field of a C object": (
        lambda: ctypes.c_double(2.0),
        lambda thing, x: x * thing.value,
        (lambda thing: setattr(thing, "value", 2.0), 1),
        (lambda thing: setattr(thing, "value", 3.0), 2),
    ),
    "the order of an OrderedDict": (
        ordered,
        each,
        (lambda thing: thing.move_to_end("double"), 1),
        (lambda thing: thing.move_to_end("add"), 2),
    ),
    "a view of a dict": (
        with_view,
        lambda thing, x: x * sum(thing.values),
        (lambda thing: thing.table.update(a=3.0), 2),
        (lambda thing: thing.table.update(b=3.0), 3),
    ),
    "a key that is another object, though equal": (
        lambda: Thing(table={Key("a", 2.0): 1.0}),
        by_keys,
        (replace_key, 2),
        (lambda thing: setattr(next(iter(thing.table)), "weight", 7.0), 3),
    ),
    "a property of the metaclass": (
        lambda: OfMeta,
        lambda thing, x: x * thing.scale,
        (lambda thing: setattr(thing, "own", 3.0), 2),
        (lambda thing: delattr(thing, "own"), 2),  # as at first
    ),
    "the signature of a function": (
        helper,
        lambda thing, x: x * inspect.signature(thing).parameters["k"].default,
        (lambda thing: setattr(thing, "__defaults__", (7.0,)), 2),
    ),
    "the code of a function": (
        helper,
        lambda thing, x: thing(x),
        (lambda thing: setattr(thing, "__code__", of_another.__code__), 2),
    ),
    "what is registered with an abstract class": (
        fresh_class,
        lambda thing, x: x * (2 if isinstance(thing.type(), thing.abstract) else 3),
        (lambda thing: Base.register(type("Other", (), {})), 1),
        (lambda thing: thing.abstract.register(thing.type), 2),
    ),
    "an attribute of a tensor": (
        holds(w=torch.ones(4)),
        lambda thing, x: x * thing.w * getattr(thing.w, "scale", 2.0),
        (lambda thing: setattr(thing.w, "other", 3.0), 1),
        (lambda thing: setattr(thing.w, "scale", 3.0), 2),
        (lambda thing: setattr(thing, "w", torch.full((4,), 5.0)), 2),  # as at first
    ),
    "a number of the process": (
        holds(),
        lambda thing, x: x * (torch.initial_seed() % 97),
        (lambda thing: torch.manual_seed(1234), 2),
    ),
    "a length after an item is taken": (
        holds(table={}),
        length_after_a_pop,
        (lambda thing: thing.table.update(a=1.0), 2),
    ),
    "a length after a store": (
        holds(table={"t": torch.ones(4)}),
        length_after_a_store,
        (lambda thing: thing.table.update(a=1.0), 2),
    ),
    "whether two tensors are one": (
        holds(a=torch.ones(4), b=torch.ones(4)),
        lambda thing, x: x * (2 if thing.a is thing.b else 3),
        (lambda thing: setattr(thing, "b", torch.ones(4)), 1),
        (lambda thing: setattr(thing, "b", thing.a), 2),
    ),
}


@pytest.mark.parametrize("name", READS)
def test_what_was_read_is_what_is_compared(name):
    read_after_changes(*READS[name])


def test_a_cached_result_is_an_entry_of_the_cache():
    thing = cached()
    f = tracehost.function(lambda x: x + thing.table(2))
    with assert_traces(f, 2):
        for traces in (1, 2, 2):  # the first call fills the cache
            assert torch.equal(f(X), X + 3)
            assert f.tracing_count() == traces
        thing.table(9)  # another entry
        assert torch.equal(f(X), X + 3)
    thing.table(2).add_(1)
    with assert_traces(f, 0):
        assert torch.equal(f(X), X + 4)
    thing.table.cache_clear()
    with assert_traces(f, 1):
        assert torch.equal(f(X), X + 5)


def test_a_cached_result_of_named_arguments():
    thing = cached()
    f = tracehost.function(lambda x: x + thing.table(n=2))
    for _ in range(3):
        assert torch.equal(f(X), X + 3)
    thing.table.cache_clear()
    assert torch.equal(f(X), X + 4)


def test_a_kept_method_of_a_generator_is_traced_each_time():
    draw = iter((1.0, 2.0, 3.0)).__next__
    f = tracehost.function(lambda x: x * draw())
    assert [f(torch.ones(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]


def test_an_except_around_an_op_behind_a_py_function_is_told():
    """A graph can't undo the call. Where it can undo what it did, the body runs in its place."""

    def f(x):
        try:
            return torch.linalg.cholesky(x)
        except RuntimeError:
            return x

    def behind(x):
        return f(tracehost.py_function(lambda x: x, [x], torch.float32))

    def cleans(x):
        tracehost.py_function(lambda x: x, [x], torch.float32)
        try:
            return torch.linalg.cholesky(x)
        finally:
            pass

    plain, behind, cleans = map(tracehost.function, (f, behind, cleans))
    with pytest.warns(
        tracehost.TraceWarning, match="aten::linalg_cholesky at .* in a `try`"
    ) as told:
        for one in (plain, behind, cleans):
            one(torch.eye(2)), one(torch.eye(3))
    assert len(told) == 1


# ---- tensors that are passed -----------------------------------------------------------------------


def test_an_attribute_of_an_argument_is_traced_each_time():
    f = tracehost.function(lambda x: x * getattr(x, "scale", 2.0))
    x = torch.ones(4)
    with assert_traces(f, 3):
        assert torch.equal(f(x), x * 2) and not tracehost.events(f)[0].notes
        x.scale = 3.0
        for count in (2, 3):
            assert torch.equal(f(x), x * 3) and f.tracing_count() == count
        assert torch.equal(f(torch.ones(4)), x * 2)
    assert (
        "reads the attribute 'scale' of a tensor that is passed to it"
        in tracehost.events(f)[1].notes[0]
    )


def test_an_attribute_is_stored_to_each_argument():
    @tracehost.function
    def f(x):
        x.visited = True
        return x * 2

    for _ in range(3):
        x = torch.ones(4)
        f(x)
        assert x.visited


def test_an_attribute_of_a_result_is_there_each_time():
    @tracehost.function
    def f(x):
        y = x * 2
        y.scale = 3.0
        return y

    assert [f(X).scale for _ in range(3)] == [3.0] * 3


def test_an_argument_may_be_one_of_those_kept():
    kept = [torch.ones(4), torch.ones(4)]
    f = tracehost.function(lambda x: x * (2 if any(x is t for t in kept) else 3))
    for x, factor in ((torch.ones(4), 3), (kept[1], 2), (torch.ones(4), 3), (kept[0], 2)):
        assert torch.equal(f(x), x * factor)


# ---- numbers that hits store -----------------------------------------------------------------------


def store_attribute(state, x):
    state.rows = x.shape[0]
    return x * 2


def store_item(state, x):
    state.table["rows"] = x.shape[0]
    return x * 2


def store_constants(state, x):
    state.done, state.name, state.rate = True, "a", 0.5
    return x * 2


def store_shape(state, x):
    state.shape = x.shape
    return x * 2


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("body", [store_attribute, store_item, store_constants, store_shape])
def test_a_hit_stores_the_numbers_that_the_body_stores(body, relaxed):
    ours, theirs = (Thing(table={}, done=False, shape=None) for _ in range(2))
    f = tracehost.function(lambda x: body(ours, x), reduce_retracing=relaxed)
    for n in (2, 3, 4, 2, 3, 4):
        assert torch.equal(f(torch.ones(n)), body(theirs, torch.ones(n)))
        assert ours.__dict__ == theirs.__dict__
        assert [type(v) for v in ours.__dict__.values()] == [
            type(v) for v in theirs.__dict__.values()
        ]
        ours.done = theirs.done = False
    assert f.tracing_count() <= 3


def test_a_number_that_is_read_and_written_is_an_input():
    state = Thing(count=0)

    @tracehost.function
    def f(x):
        state.count += 1
        return x * state.count

    with assert_traces(f, 2):
        for n in (1, 2, 3, 10**15 + 1):
            if n > 3:
                state.count = n - 1
            assert torch.equal(f(X), X * n) and state.count == n


def test_a_size_that_becomes_a_key_is_a_number():
    cache = {}

    def body(x):
        n = x.shape[0]
        if n not in cache:
            cache[n] = torch.arange(float(n))
        return x + cache[n]

    f = tracehost.function(body, reduce_retracing=True)
    for n in (2, 3, 4, 5, 2):
        assert torch.equal(f(torch.ones(n)), torch.arange(float(n)) + 1)
    assert [type(key) for key in cache] == [int] * 4 and sorted(cache) == [2, 3, 4, 5]


# ---- results of staged blocks ----------------------------------------------------------------------


def clamp(x):
    if x.sum() > 0:
        x = x * 2
    return x


def count(x):
    n = 0
    while x.sum() > 1:
        x, n = x / 2, n + 1
    return x, n


def test_what_a_branch_leaves_is_the_very_tensor():
    f = tracehost.function(clamp)
    with assert_traces(f, 1):
        for value in (-1.0, 1.0, -1.0):
            x = torch.full((4,), value, requires_grad=True)
            result = f(x)
            assert torch.equal(result, clamp(x)) and (result is x) == (value < 0)


def test_what_a_loop_leaves_is_the_very_tensor_and_its_count_a_number():
    f = tracehost.function(count)
    with assert_traces(f, 1):
        for value in (0.0, 8.0, 0.0):
            x = torch.full((1,), value)
            (result, n), (expected, m) = f(x), count(x)
            assert torch.equal(result, expected) and (result is x) == (expected is x)
            assert type(n) is int and n == m


# ---- nothing without data is left behind -----------------------------------------------------------


def leaving():
    state = Thing(last=None, table={}, log=[])
    state.memo = functools.lru_cache(lambda n: torch.ones(n))
    state.unbounded = functools.lru_cache(None)(lambda n: torch.ones(n))
    return state


LEAVES = {
    "an attribute": lambda state, x: setattr(state, "last", x * 2),
    "an item": lambda state, x: state.table.update(a=x * 2),
    "in a list": lambda state, x: state.table.update(a=[x * 2]),
    "a bounded cache": lambda state, x: state.memo(4),
    "a cache": lambda state, x: state.unbounded(4),
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_branch_that_is_not_taken_stores_nothing(name):
    state, store = leaving(), LEAVES[name]

    @tracehost.function
    def f(x):
        if x.sum() > 0:
            store(state, x)
        return x * 2

    assert torch.equal(f(-torch.ones(4)), -torch.ones(4) * 2)
    assert state.last is None and state.table == {} and state.log == []
    assert torch.equal(state.memo(4), torch.ones(4)) and torch.equal(
        state.unbounded(4), torch.ones(4)
    )


def test_a_nested_tensor_is_rejected():
    f = tracehost.function(lambda x: x * 2)
    with pytest.raises(tracehost.TraceError, match="a nested tensor is passed"):
        f(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))


NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
NO_SIZES = "a nested tensor, which has no sizes that a graph could be traced for. "


def test_a_nested_tensor_that_is_returned_is_rejected():
    f = tracehost.function(lambda x: torch.nested.nested_tensor([x, x * 2]), name="f")
    with pytest.raises(tracehost.TraceError, match=f"returned {NO_SIZES}Return it padded"):
        f(torch.ones(2))


def test_a_nested_tensor_of_the_surroundings_is_rejected():
    f = tracehost.function(lambda x: torch.nested.to_padded_tensor(NESTED, 0.0) + x)
    with pytest.raises(tracehost.CaptureError, match=f"^NESTED .* is {NO_SIZES}Pad it outside"):
        f(torch.ones(1))


def test_a_nested_tensor_inside_is_recorded():
    f = tracehost.function(
        lambda x, y: torch.nested.to_padded_tensor(torch.nested.nested_tensor([x, y]) * 2, 0.0)
    )
    for size in (2, 3):
        x, y = torch.ones(size), torch.full((4,), 3.0)
        expected = torch.nn.utils.rnn.pad_sequence([x, y], batch_first=True) * 2
        assert torch.equal(f(x, y), expected)


# ---- what runs in between ------------------------------------------------------------------------


@pytest.mark.filterwarnings(
    "error::tracehost.SideEffectWarning", "ignore::tracehost.RetraceWarning"
)
def test_callbacks_of_the_collector():
    """They run wherever a collection happens to begin, also while a trace is set up, and read nothing for the body."""
    seen = {"count": 0}

    def callback(phase, info):
        seen["count"] += 1

    threshold = gc.get_threshold()
    gc.callbacks.append(callback)
    try:
        for each in range(1, 60):
            gc.set_threshold(each)
            f = tracehost.function(lambda x: [x + 1, x * 2])
            with assert_traces(f, 1):
                for _ in range(3):
                    f(X)
    finally:
        gc.callbacks.remove(callback)
        gc.set_threshold(*threshold)
    assert seen["count"] > 100
