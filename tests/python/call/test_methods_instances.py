"""Methods: a Function for each instance, found by identity, gone with the instance."""

import copy
import dataclasses
import functools
import gc
import inspect
import pickle
import threading
import weakref

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


class Model:
    def __init__(self, k=2.0):
        self.k = k

    @tracehost.function
    def call(self, x):
        """Doc."""
        return x * self.k

    @tracehost.function(limit=1, name="only_one")
    def limited(self, x, n=1):
        return x * n


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_each_instance_has_its_cache_and_counts():
    a, b = Model(2.0), Model(3.0)
    for _ in range(2):
        assert torch.equal(a.call(X), X * 2) and torch.equal(b.call(X), X * 3)
    a.call(torch.ones(2))
    assert (a.call.tracing_count(), b.call.tracing_count()) == (2, 1)
    assert (a.call.stats()["hits"], b.call.stats()["hits"]) == (1, 1)
    assert Model.call.tracing_count() == 0


def test_a_bound_method_is_as_pythons():
    m = Model()
    method = m.call
    with assert_traces(method, 0):
        assert method == m.call and method != Model().call and hash(method) == hash(m.call)
        assert method.__self__ is m and method.__func__ is m.call.__func__
        assert method.__name__ == method.name == "call" and method.__doc__ == "Doc."
        assert list(inspect.signature(method).parameters) == ["x"]
        assert list(inspect.signature(Model.call).parameters) == ["self", "x"]
        assert isinstance(method.__func__, tracehost.Function)
        line = Model.call.python_function.__code__.co_firstlineno
        assert repr(method.__func__) == (
            f"<tracehost.Function call at test_methods_instances.py:{line}, 0 specializations>"
        )
        assert torch.equal(method.python_function(X), X * 2)
    with pytest.raises(AttributeError):
        method.note = 5
    Model.call.note = 5
    assert m.call.note == 5
    del Model.call.note


def test_calls_through_the_class_use_the_shared_function():
    a, b = Model(2.0), Model(3.0)
    for _ in range(2):
        assert torch.equal(Model.limited(a, X), X) and torch.equal(Model.call(a, X), X * 2)
        assert torch.equal(Model.call(b, x=X), X * 3)
    assert Model.call.tracing_count() == 2 and a.call.tracing_count() == 0
    Model.call.clear(), Model.limited.clear()


def test_the_names_of_arity_errors():
    m = Model()
    for call, says in (
        (lambda: m.call(), r"call\(\) missing a required argument: 'x'"),
        (lambda: m.call(X, X), r"call\(\) too many positional arguments"),
        (lambda: m.call(X, x=X), r"call\(\) multiple values for argument 'x'"),
        (lambda: m.call(X, y=X), r"call\(\) got an unexpected keyword argument 'y'"),
    ):
        with pytest.raises(TypeError, match=says):
            call()


def test_an_instance_takes_its_function_and_graphs_with_it(no_gc):
    m, w = Model(), torch.ones(3)
    m.k = w
    m.call(X), m.call(X)
    freed = [weakref.ref(o) for o in (m, m.call.__func__, w)]
    del m, w
    assert [ref() for ref in freed] == [None] * 3


def test_a_temporary_instance():
    assert torch.equal(Model(3.0).call(X), X * 3)
    for k in range(20):  # addresses are used again
        assert torch.equal(Model(float(k)).call(X), X * k)


def test_the_instance_may_die_in_its_own_call():
    class Holder:
        @tracehost.function(watch=False)
        def call(self, x):
            holders.clear()
            return x * 2

    holders = [Holder()]
    gone = weakref.ref(holders[0])
    with pytest.warns(tracehost.SideEffectWarning):
        assert torch.equal(holders[0].call(X), X * 2)
    gc.collect()
    assert gone() is None


def test_a_weak_reference_that_outlives_the_class():
    class Short:
        @tracehost.function
        def call(self, x):
            return x

    s = Short()
    s.call(X)
    kept = weakref.getweakrefs(s)
    function = weakref.ref(Short.call)
    del Short.call
    gc.collect()
    assert function() is None
    del s
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)


def test_an_instance_in_a_cycle_is_collected():
    m = Model()
    m.self, m.method = m, m.call
    m.call(X)
    refs = [weakref.ref(m), weakref.ref(m.call.__func__)]
    del m
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_a_class_with_used_methods_is_collected():
    def make():
        class Local:
            @tracehost.function
            def call(self, x):
                return Local, x

            @tracehost.function
            def plain(self, x):
                return x * 2

        m = Local()
        m.plain(X)
        Local.kept = m
        return weakref.ref(Local), weakref.ref(m)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_options_are_forwarded():
    m = Model()
    m.limited(X, 1), m.limited(X, 2)
    assert m.limited.stats()["live"] == 1 and m.limited.stats()["evicted"] == 1
    assert m.limited.name == "only_one"

    class Declared:
        spec = tracehost.TensorSpec([None])

        @tracehost.function(input_signature=[spec], watch=False)
        def call(self, x):
            return x * 2

        @tracehost.function(reduce_retracing=True)
        def relaxed(self, x):
            return x * 2

    d = Declared()
    for n in range(1, 5):
        assert torch.equal(d.call(torch.ones(n)), torch.full((n,), 2.0))
        assert torch.equal(d.relaxed(torch.ones(n)), torch.full((n,), 2.0))
    assert d.call.tracing_count() == 1 and d.relaxed.tracing_count() == 2
    assert d.call.input_signature == (Declared.spec,)
    with pytest.raises(tracehost.SignatureError, match="'x'"):
        d.call(torch.ones(2, 2))


# ---- instances of all kinds ----------------------------------------------------------------------


def test_equal_instances_do_not_share():
    class Equal:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return isinstance(other, Equal)

        def __hash__(self):
            return 7

        @tracehost.function
        def call(self, x):
            return x * self.k

    a, b = Equal(2.0), Equal(3.0)
    for _ in range(2):
        assert torch.equal(a.call(X), X * 2) and torch.equal(b.call(X), X * 3)
    assert a.call.tracing_count() == b.call.tracing_count() == 1
    gone = weakref.ref(a)
    del a
    assert gone() is None


def test_an_eq_that_raises_is_never_asked():
    class Touchy:
        def __eq__(self, other):
            raise RuntimeError("asked")

        def __hash__(self):
            raise RuntimeError("asked")

        @tracehost.function
        def call(self, x):
            return x * 2

    t = Touchy()
    with assert_traces(t.call, 1):
        for _ in range(3):
            assert torch.equal(t.call(X), X * 2)


@dataclasses.dataclass
class Record:
    w: torch.Tensor
    k: float = 2.0

    @tracehost.function
    def call(self, x):
        return x * self.w * self.k


def test_dataclasses_are_instances_like_others():
    r = Record(torch.ones(3))
    with assert_traces(r.call, 1):
        for _ in range(2):
            assert torch.equal(r.call(X), X * 2)
        r.w.add_(1)
        assert torch.equal(r.call(X), X * 4)
        r.w = torch.zeros(3)
        assert torch.equal(r.call(X), X * 0)
    with assert_traces(r.call, 1):
        r.k = 3.0
        assert torch.equal(r.call(X + 1), X * 0)
    assert torch.equal(Record(torch.ones(3)).call(X), X * 2)
    assert torch.equal(Record.call(r, X), X * 0)


def test_instances_without_weak_references_share_by_identity():
    class Slots:
        __slots__ = ("k",)

        def __init__(self, k):
            self.k = k

        @tracehost.function
        def call(self, x):
            return x * self.k

    a, b = Slots(2.0), Slots(3.0)
    for _ in range(2):
        assert torch.equal(a.call(X), X * 2) and torch.equal(b.call(X), X * 3)
    assert a.call.tracing_count() == Slots.call.tracing_count() == 2
    a.k = 5.0
    assert torch.equal(a.call(X), X * 5)


def test_methods_of_tuples_and_tensors():
    import collections

    class Pair(collections.namedtuple("Pair", "a b")):
        @tracehost.function
        def sum(self, x):
            return self.a + self.b * x

    class Tagged(torch.Tensor):
        @tracehost.function
        def twice(self):
            return self.as_subclass(torch.Tensor) * 2

    for _ in range(2):
        assert torch.equal(Pair(X, 2).sum(X), X * 3)
        assert torch.equal(X.as_subclass(Tagged).twice(), X * 2)
    assert Pair.sum.tracing_count() == Tagged.twice.tracing_count() == 1


def test_methods_of_dicts_and_numbers():
    class Config(dict):
        @tracehost.function
        def scale(self, x):
            return x * self["k"]

    class Number(float):
        @tracehost.function
        def scale(self, x):
            return x * (self + 0.0)

    for k in (2.0, 3.0, 2.0):
        assert torch.equal(Config(k=k).scale(X), X * k)
        assert torch.equal(Number(k).scale(X), X * k)


def test_nn_modules():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)
            self.drop = torch.nn.Dropout(0.5)

        @tracehost.function
        def forward(self, x):
            return self.drop(self.inner(x))

    net, other = Net().eval(), Net().eval()
    with assert_traces(net.forward, 2):
        for _ in range(2):
            assert torch.equal(net(X), net.inner(X)) and torch.equal(other(X), other.inner(X))
        assert net.forward.tracing_count() == other.forward.tracing_count() == 1
        with torch.no_grad():
            net.inner.weight.zero_()
        net(X).sum().backward()
        assert torch.equal(net.inner.weight.grad, X.expand(3, 3)) and torch.equal(
            net(X), net.inner.bias
        )
        net.train()
        net(X)
    twin = copy.deepcopy(net).eval()
    with assert_traces(twin.forward, 1):
        assert torch.equal(twin(X), net.inner(X))
    sequence = torch.nn.Sequential(Net(), Net()).eval()
    wrapped = tracehost.function(sequence)
    with assert_traces(wrapped, 1):
        assert torch.equal(wrapped(X), sequence(X))


def test_a_lazily_made_attribute_of_the_instance():
    m = Model(2)
    with assert_traces(m.call, 2):
        assert torch.equal(m.call(X), X * 2)
        m.k = 2.0
        m.extra = 1
        assert torch.equal(m.call(X), X * 2)


# ---- copies, other Functions, threads ------------------------------------------------------------


def test_copies_and_pickles_have_functions_of_their_own():
    m = Model(2.0)
    m.call(X)
    for twin in (copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        twin.k = 4.0
        assert torch.equal(twin.call(X), X * 4) and twin.call.tracing_count() == 1
    assert torch.equal(pickle.loads(pickle.dumps(m.call))(X), X * 2)
    method = copy.deepcopy(m.call)
    assert method.__self__ is not m and torch.equal(method(X), X * 2)


def test_a_method_as_an_argument_and_in_a_closure():
    m = Model(2.0)
    m.w = torch.ones(3)
    step = m.call
    apply = tracehost.function(lambda g, x: g(x))
    closed = tracehost.function(lambda x: step(x) + 1)
    with assert_traces(closed, 2):
        for _ in range(2):
            assert torch.equal(apply(m.call, X), X * 2) and torch.equal(closed(X), X * 2 + 1)
        assert apply.tracing_count() == closed.tracing_count() == 1
        m.k = torch.full((3,), 3.0)
        assert torch.equal(closed(X), X * 3 + 1) and torch.equal(apply(m.call, X), X * 3)
        m.k = torch.full((3,), 5.0)
        assert torch.equal(closed(X), X * 5 + 1)
    gone = weakref.ref(m)
    m = step = closed = None
    gc.collect()
    assert gone() is None


def test_decorating_a_bound_method():
    m = Model(2.0)
    f = tracehost.function(m.call)
    g = tracehost.function(m.call.python_function)
    for _ in range(2):
        assert torch.equal(f(X), X * 2) and torch.equal(g(X), X * 2)
    assert f.tracing_count() == g.tracing_count() == 1
    partial = functools.partial(Model.call, m)
    assert torch.equal(partial(X), X * 2)


def test_methods_call_each_other():
    class Net:
        k = 2.0

        @tracehost.function
        def outer(self, x):
            return self.inner(x) + Net().inner(x)

        @tracehost.function
        def inner(self, x):
            return x * self.k

    net = Net()
    for _ in range(2):
        assert torch.equal(net.outer(X), X * 4)
    net.k = 3.0
    assert torch.equal(net.outer(X), X * 5)
    assert net.outer.tracing_count() == 2 and net.inner.tracing_count() == 0


def test_first_access_from_many_threads():
    m = Model(2.0)
    start = threading.Barrier(8)
    right = []

    with assert_traces(m.call, 1):

        def work():
            start.wait()
            for _ in range(20):
                right.append(torch.equal(m.call(X), X * 2))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert right == [True] * 160


def test_instances_come_and_go_in_threads():
    def work(k, wrong):
        for n in range(30):
            if not torch.equal(Model(k + n).call(X), X * (k + n)):
                wrong.append((k, n))

    wrong = []
    threads = [threading.Thread(target=work, args=(float(k), wrong)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_clearing_the_classs_function_clears_those_of_instances():
    class Local(Model):
        @tracehost.function
        def call(self, x):
            return x + 1

    a, b = Local(), Local()
    with assert_traces(a.call, 2):
        a.call(X), b.call(X)
        a.call.clear()
        assert (a.call.stats()["live"], b.call.stats()["live"]) == (0, 1)
        Local.call.clear()
        assert b.call.stats()["live"] == 0
        assert torch.equal(a.call(X), X + 1)


def test_an_instance_is_not_rebuilt_for_the_arrays_in_it():
    numpy = pytest.importorskip("numpy")

    @dataclasses.dataclass
    class Holder:
        a: object

        @tracehost.function
        def call(self, x):
            seen.append(self)
            return x * 2

    seen = []
    holder = Holder(numpy.ones(3))
    with pytest.warns(tracehost.SideEffectWarning):
        holder.call(X)
    assert torch.equal(holder.call(numpy.ones(3, dtype=numpy.float32)), torch.full((3,), 2.0))
    assert len(seen) == 1 and seen[0] is holder
