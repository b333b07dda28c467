"""What else may be decorated: wrappers, partials, builtins, callables; and what may not."""

import copy
import functools
import gc
import math
import operator
import weakref

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


def same(f, expected, *args, traces=1):
    for _ in range(2):
        assert torch.equal(f(*args), expected)
    assert f.tracing_count() == traces


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        (torch.add, (X, 2), X + 2),
        (torch.Tensor.mul, (X, X), X * X),
        (torch.nn.functional.relu, (X - 1,), (X - 1).relu()),
        (torch.stack, ([X, X],), torch.stack([X, X])),
        (operator.matmul, (X, X), X @ X),
        (X.add, (1,), X + 1),
        (torch.nn.ReLU(), (X - 1,), (X - 1).relu()),
        (lambda x, *rest, k=2: x * k + sum(rest), (X, 1, 2), X * 2 + 3),
    ],
)
def test_ops_builtins_and_lambdas(op, args, expected):
    same(tracehost.function(op), expected, *args)


def test_a_builtin_on_numbers():
    f = tracehost.function(math.hypot)
    with assert_traces(f, 1):
        assert f(3.0, 4.0) == f(3.0, 4.0) == 5.0


def test_decorators_stacked_either_way():
    def doubled(fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return call

    @tracehost.function
    @doubled
    def inside(x, y=1):
        """Doc."""
        return x + y

    @doubled
    @tracehost.function
    def outside(x, y=1):
        return x + y

    same(inside, (X + 1) * 2, X)
    with assert_traces(outside.__wrapped__, 1):
        assert torch.equal(outside(X), (X + 1) * 2)
    assert (inside.__name__, inside.__doc__) == ("inside", "Doc.")
    with pytest.raises(TypeError, match=r"inside\(\) got an unexpected keyword argument 'z'"):
        inside(X, z=1)
    with pytest.raises(TypeError, match=r"inside\(\) too many positional arguments"):
        inside(X, 1, 2)


def test_a_function_decorated_again():
    f = tracehost.function(lambda x: x + 1)
    with assert_traces(f, 0):
        g = tracehost.function(f, limit=2)
        same(g, X + 1, X)
        assert g is not f


def test_partials():
    def f(x, y, z=3.0):
        return x + 10 * y + 100 * z

    same(tracehost.function(functools.partial(f, X)), X + 10 * X + 300, X)
    g = tracehost.function(functools.partial(f, y=X, z=5.0))
    with assert_traces(g, 2):
        same(g, X + 10 * X + 500, X)
        assert torch.equal(g(X, z=1.0), X + 10 * X + 100)
    with pytest.raises(TypeError, match="too many positional arguments"):
        tracehost.function(functools.partial(f, X, X, X))(X)
    x = X.clone()
    h = tracehost.function(functools.partial(f, x))
    with assert_traces(h, 1):
        h(X)
        x.add_(1)
        assert torch.equal(h(X), f(x, X))


def test_lru_cache_is_rejected_below_and_works_above():
    with pytest.raises(TypeError, match="keeps results: .* Put lru_cache above tracehost.function"):

        @tracehost.function
        @functools.lru_cache
        def below(x):
            return x * 2

    @functools.lru_cache
    @tracehost.function
    def above(x):
        return x * 2

    assert above(X) is above(X) and torch.equal(above(X), X * 2)
    assert above.__wrapped__.stats()["calls"] == 1


async def waits(x):
    return x


async def yields_later(x):
    yield x


def yields(x):
    yield x


class Waits:
    async def __call__(self, x):
        return x


class Yields:
    def method(self, x):
        yield x


@pytest.mark.parametrize(
    ("func", "says"),
    [
        (waits, "<function waits at .*> is async: a graph can't wait"),
        (yields_later, "is async: a graph can't wait"),
        (Waits(), "<.*Waits object at .*> is async"),
        (functools.partial(waits, 1), "is async"),
        (yields, "is a generator: a graph can't pause. Return a list or a tuple"),
        (Yields().method, "is a generator"),
        (torch.nn.Linear, "<class '.*Linear'> is a class: decorate one of its methods"),
        (dict, "<class 'dict'> is a class"),
        (
            5,
            r"^5 is not a callable object. Write @tracehost.function above a def, or tracehost.function\(f\) for a function f$",
        ),
    ],
)
def test_what_is_rejected_at_the_decoration(func, says):
    with pytest.raises(TypeError, match=says):
        tracehost.function(func)


def test_tfs_names_for_options():
    f = tracehost.function(lambda x: x * 2, experimental_relax_shapes=True)
    with assert_traces(f, 2):
        for n in range(1, 5):
            f(torch.ones(n))
    for option in ("jit_compile", "experimental_implements", "experimental_autograph_options"):
        assert tracehost.function(lambda x: x, **{option: None})(X) is X
        with pytest.raises(TypeError, match=f"{option} has no counterpart here; leave it out"):
            tracehost.function(lambda x: x, **{option: "something"})
    decorate = tracehost.function(experimental_relax_shapes=True, jit_compile=False)
    assert decorate(lambda x: x)(X) is X


def test_copies_of_functions_over_callables():
    class Scale:
        k = torch.full((3,), 2.0)

        def __call__(self, x):
            return x * self.k

    scale = Scale()
    f = tracehost.function(scale)
    same(f, X * 2, X)
    assert copy.copy(f) is f
    g = copy.deepcopy(f)
    with assert_traces(g, 0):
        assert g.python_function is not scale
    same(g, X * 2, X)


def test_weak_references_to_functions():
    f = tracehost.function(lambda x: x * 2)
    died = []
    ref = weakref.ref(f, died.append)
    keyed = weakref.WeakKeyDictionary({f: 1})
    f(X)
    gc.disable()
    try:
        del f
        assert ref() is None and died == [ref] and not keyed
    finally:
        gc.enable()
