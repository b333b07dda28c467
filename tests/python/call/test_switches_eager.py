"""Running Functions as plain Python: run_functions_eagerly, stance("eager")."""

import threading
import warnings

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    tracehost.run_functions_eagerly(False)
    tracehost.stance("default")


def counting():
    runs = []

    @tracehost.function(watch=False)
    def f(x, n=2):
        runs.append(n)
        return x * n

    return f, runs


@pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning")
@pytest.mark.parametrize(
    "switch",
    [tracehost.run_functions_eagerly, lambda on: tracehost.stance(("default", "eager")[on])],
)
def test_each_call_runs_the_python_function(switch):
    f, runs = counting()
    assert not tracehost.functions_run_eagerly()
    switch(True)
    assert tracehost.functions_run_eagerly()
    with assert_traces(f, 0):
        for n in (2, 2, 3):
            assert torch.equal(f(X, n), X * n)
        stats = f.stats()
        assert runs == [2, 2, 3]
    assert (stats["calls"], stats["eager"], stats["hits"], stats["live"]) == (3, 3, 0, 0)
    switch(False)
    assert not tracehost.functions_run_eagerly()
    with assert_traces(f, 1):
        f(X), f(X)
        assert runs == [2, 2, 3, 2]


@pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning")
def test_earlier_traces_serve_again_afterwards():
    f, runs = counting()
    f(X)
    with tracehost.run_functions_eagerly(True):
        f(X)
    f(X)
    stats = f.stats()
    assert len(runs) == 2 and (stats["traces"], stats["eager"], stats["hits"]) == (1, 1, 1)


def test_nothing_is_compared_or_rejected():
    f = tracehost.function(lambda x, anything=None: x.sum().numpy().tolist())
    for bad in ({1, 2}, [[]], f):
        with tracehost.stance("eager"):
            assert f(X, bad) == 3.0
    with pytest.raises(tracehost.ValueReadError):
        f(X)
    with tracehost.stance("eager"), pytest.raises(TypeError, match="missing 1 required positional"):
        f()


def test_a_mode_that_a_graph_does_not_honour():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            Seen.count += 1
            return op(*args, **(kwargs or {}))

    f = tracehost.function(lambda x: x * 2)
    with Seen(), tracehost.stance("eager"):
        assert torch.equal(f(X), X * 2)
    assert Seen.count > 0


def test_eager_runs_do_not_count_for_the_retrace_warning():
    f = tracehost.function(lambda x, n: x * n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tracehost.run_functions_eagerly(True):
            for n in range(12):
                f(X, n)
        for n in range(4):
            f(X, n)
        assert f.tracing_count() == 4
    with pytest.warns(tracehost.RetraceWarning, match="5 out of the last 5 calls"):
        f(X, 4)


def test_it_appears_in_the_report():
    tracehost.reset()
    f = tracehost.function(lambda x: x, name="seen_in_the_report")
    with tracehost.stance("eager"):
        f(X), f(X)
    line = next(t for t in tracehost.report().splitlines() if "seen_in_the_report" in t)
    assert line.split()[2:5] == ["2", "0", "0"]  # calls, hits, traces


def test_methods_too():
    class Model:
        @tracehost.function
        def call(self, x):
            return x.sum().item() + self.bias

    model = Model()
    model.bias = 1.0
    with tracehost.stance("eager"):
        assert model.call(X) == 4.0


def test_a_call_inside_of_a_trace_is_part_of_it():
    inner = tracehost.function(lambda x: x + 1)

    @tracehost.function
    def outer(x):
        with tracehost.stance("eager"):
            return inner(x) * 2

    for _ in range(2):
        assert torch.equal(outer(X), (X + 1) * 2)
    assert outer.stats()["hits"] == 1 and inner.stats()["eager"] == 0


def test_a_block_restores_what_was_before():
    def now():
        return tracehost.functions_run_eagerly()

    tracehost.run_functions_eagerly(True)
    with tracehost.stance("default"):
        assert not now()
        with tracehost.stance("eager"), tracehost.run_functions_eagerly(False):
            assert not now()
        assert not now()
    assert now()
    with pytest.raises(KeyError), tracehost.run_functions_eagerly(False):
        raise KeyError
    assert now()
    kept = tracehost.run_functions_eagerly(False)
    assert not now()
    with kept:
        assert not now()
    assert now()  # leaving the block takes the call back as well
    tracehost.run_functions_eagerly(False)
    with kept, kept:
        pass
    assert not now()


def test_a_block_holds_for_its_thread_and_a_call_for_all():
    f = tracehost.function(lambda x: x * 2)
    f(X)

    def counts():
        before = f.stats()["eager"]
        thread = threading.Thread(target=f, args=(X,))
        thread.start()
        thread.join()
        return f.stats()["eager"] - before

    with tracehost.stance("eager"):
        assert counts() == 0
    tracehost.stance("eager")
    assert counts() == 1
    with tracehost.stance("default"):
        assert counts() == 1
        f(X)
    assert f.stats()["eager"] == 2 and f.stats()["hits"] == 2


def test_a_thread_that_ends_in_a_block():
    def left_open():
        with tracehost.stance("eager"):
            yield

    kept = []

    def work():
        block = left_open()
        next(block)
        kept.append(block)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not tracehost.functions_run_eagerly()
    kept[0].close()  # of another thread: takes nothing from this one
    with tracehost.stance("eager"):
        assert tracehost.functions_run_eagerly()
    assert not tracehost.functions_run_eagerly()


def test_wrong_values():
    with pytest.raises(
        ValueError, match="no stance 'lazy'; there are 'default', 'eager', 'eager_on"
    ):
        tracehost.stance("lazy")
    with pytest.raises(TypeError, match="takes a bool, got 1"):
        tracehost.run_functions_eagerly(1)
    assert not tracehost.functions_run_eagerly()
