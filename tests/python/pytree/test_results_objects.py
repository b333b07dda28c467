"""Objects in a result: made again by each call, or the same ones that were passed in."""

import dataclasses
import threading
import weakref
from collections import OrderedDict, UserDict

import pytest
import torch
import tracehost
from core_support import assert_same
from torch.utils._pytree import register_pytree_node
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(1.0, 4.0)


class Output:
    scale = 2.0

    def __init__(self, value, **more):
        self.value = value
        self.__dict__.update(more)


class Slotted:
    __slots__ = ("a", "b", "unset")

    def __init__(self, a, b):
        self.a, self.b = a, b


class Both(Slotted):
    def __init__(self, a):
        super().__init__(a, "b")
        self.c = [Output(a + 1), Output(a + 2)]


class Layer:
    def __init__(self, keys, values):
        self.keys, self.values, self.is_initialized = keys, values, True


class Cache:
    """As caches of keys and values are: layers that know the class they are made of."""

    def __init__(self):
        self.layers, self.layer_class = [], Layer

    def update(self, keys, values):
        self.layers.append(self.layer_class(keys, values))


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    cache: object = None


class ModelOutput(OrderedDict):
    """Registered, and holds each value twice: as an item and as an attribute."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


register_pytree_node(
    ModelOutput,
    lambda m: (list(m.values()), list(m)),
    lambda values, names: ModelOutput(zip(names, values, strict=True)),
)


def model_output(x):
    made = ModelOutput()
    made["logits"], made["cache"] = x * 2, cached(x).cache
    return made


def shown(value):
    """What there is to compare: attributes of objects, with their classes."""
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, (torch.Tensor, int, float, str, type, type(None))):
        return value
    names = [*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())]
    return {"class": type(value), **{n: shown(getattr(value, n, "unset")) for n in names}}


def cached(x):
    cache = Cache()
    for k in range(2):
        cache.update(x * k, x + k)
    return Answer(x * 2, cache)


MADE = {
    "an object": lambda x: Output(x * 2, n=3, name="out"),
    "slots": lambda x: Slotted(x * 2, None),
    "slots and attributes": lambda x: Both(x),
    "in containers": lambda x: {"a": [Output(x)], "b": (Slotted(x, x + 1), x)},
    "a class of the library": lambda x: UserDict(a=x * 2),
    "a cache": cached,
    "in a registered class": model_output,
    "numbers of the graph": lambda x: Output(x.sum().item(), rounded=round(x.mean().item(), 2)),
    "no tensor at all": lambda x: Output(None),
    "a class and a function": lambda x: Output(x, kind=Layer, how=shown),
    "traced in a branch": lambda x: Output(x * 2 if x.sum() > 0 else x - 1),
}


@pytest.mark.parametrize("name", MADE)
def test_each_call_makes_another(name):
    body = MADE[name]
    f = tracehost.function(body)
    made = []
    with assert_traces(f, 1):
        for k in (1, 2, -3, 4):
            made.append(f(X * k))
            assert_same(shown(made[-1]), shown(body(X * k)))
    assert len({id(m) for m in made}) == 4 and type(made[0]) is type(made[3])
    assert_same(shown(made[0]), shown(body(X)))  # left alone by the later ones


def test_an_object_that_is_there_twice_is_one():
    def body(x):
        one, other = Output(x * 2), Output(x * 2)
        return one, {"again": one, "other": other, "held": Output(one)}

    f = tracehost.function(body)
    for k in range(3):
        first, rest = f(X * k)
        assert rest["again"] is first and rest["held"].value is first
        assert rest["other"] is not first and torch.equal(first.value, X * k * 2)


def test_an_object_that_was_passed_in_is_that_object():
    def body(o, options):
        return o, Answer(o.value * 2, options["cache"])

    f = tracehost.function(body)
    given, cache = Output(X), Cache()
    with assert_traces(f, 1):
        for _ in range(3):
            got, answer = f(given, {"cache": cache})
            assert got is given and answer.cache is cache and torch.equal(answer.logits, X * 2)


def test_an_object_that_was_passed_in_and_changed():
    def body(o, x):
        o.value = x * 2
        return o

    f = tracehost.function(body)
    given = Output(X)
    for k in range(4):
        assert f(given, X * k) is given and torch.equal(given.value, X * k * 2)
    assert f.tracing_count() <= 2


KEPT = []


def also_kept(x):
    made = Output(x)
    weakref.finalize(made, KEPT.append, made)
    return made


def ring(x):
    made = Output(x)
    made.me = made
    return made


def with_a_lock(x):
    return Output(x, lock=threading.Lock())


class Closing:
    def __init__(self, x):
        self.x = x

    def __del__(self):
        pass


class Own:
    def __new__(cls, x):
        made = object.__new__(cls)
        made.x = x
        return made


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (also_kept, "a Output that something else refers to as well"),
        (ring, "contains itself"),
        (with_a_lock, "a _thread.lock, which a later call could not make again"),
        (lambda x: Closing(x), "a Closing, which a later call could not make again"),
        (lambda x: Own(x), "a Own, which a later call could not make again"),
        (lambda x: ValueError("a", 3), "a ValueError, which a later call could not make again"),
    ],
)
@pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning")
def test_what_can_not_be_made_again_is_rejected(body, text):
    f = tracehost.function(body)
    with assert_traces(f, 0):
        with pytest.raises(TypeError, match=text):
            f(X)


def test_it_is_validated_at_hits():
    f = tracehost.function(cached, validate=1)
    for k in range(3):
        assert_same(shown(f(X * k)), shown(cached(X * k)))
    assert f.stats()["mismatches"] == 0 and f.stats()["validated"] == 3


def test_a_concrete_function_makes_it_too():
    f = tracehost.function(cached)
    concrete = f.get_concrete_function(tracehost.TensorSpec([3]))
    assert_same(shown(concrete(X)), shown(cached(X)))
