"""Defects of the neighbours (Dr.Jit, MLX, JAX, Dynamo): one test each, named after where it was seen."""

import gc
import math
import threading
import warnings

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(4.0)


# ---- MLX ------------------------------------------------------------------------------------------


def test_mlx_3940_a_new_function_at_an_old_address_has_its_own_graphs():
    for n in range(200):
        f = tracehost.function(eval(f"lambda x: x + {n}"))
        assert torch.equal(f(X), X + n)
        del f


def test_mlx_3940_a_new_object_at_an_old_address_is_another():
    class Holder:
        def __init__(self, n):
            self.n = n

    f = tracehost.function(lambda x, h: x * h.n)
    for n in range(50):
        assert torch.equal(f(X, Holder(n)), X * n)


def test_mlx_3964_4464_numbers_that_come_and_go_do_not_pile_up():
    f = tracehost.function(lambda x, n: x * n, limit=4)
    for n in range(30):
        assert torch.equal(f(X, n), X * n)
    stats = f.stats()
    assert stats["live"] == 4 and stats["evicted"] == 26
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        g = tracehost.function(lambda x, n: x * n)
        for n in range(5):
            g(X, n)
    assert [w.category for w in seen] == [tracehost.RetraceWarning]


def test_a_trace_that_raises_leaves_no_half_made_entry():
    bad = [True]

    def body(x):
        y = x * 2
        if bad:
            raise ValueError("no")
        return y

    f = tracehost.function(body)
    with assert_traces(f, 0):
        with pytest.raises(ValueError, match="no"):
            f(X)
        assert f.stats()["live"] == 0
    bad.clear()
    with assert_traces(f, 1):
        assert torch.equal(f(X), X * 2)


def test_jax_mps_138_two_lambdas_of_one_line_are_two_functions():
    f, g = (tracehost.function(lambda x, k=k: x * k) for k in (2, 3))
    assert torch.equal(f(X), X * 2) and torch.equal(g(X), X * 3)


def test_mlx_trees_carry_their_sizes():
    f = tracehost.function(lambda *trees: str(torch.utils._pytree.tree_structure(trees)))
    a, b = X, X + 1
    with assert_traces(f, 6):
        for trees in ([[a], [b]], [[a, [b]]], [(a,), [b]], [[a], (b,)], [[], [a], b], [[[]], a, b]):
            assert f(*trees) == str(torch.utils._pytree.tree_structure(tuple(trees)))


# ---- Dr.Jit ---------------------------------------------------------------------------------------


def test_drjit_793aee51_the_warning_fires_and_is_the_whole_text():
    f = tracehost.function(lambda x: x.sum(), name="step")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(1, 6):
            f(torch.ones(n))
    assert len(seen) == 1
    text = str(seen[0].message)
    assert text.startswith("5 out of the last 5 calls to step (test_complaints_peers.py:")
    assert "argument 'x', dimension 0, took 5 values (1, 2, 3, 4, 5)" in text


def test_drjit_threads_do_not_meet_in_one_function():
    f = tracehost.function(lambda x, n: (x * n).sum())
    failures, barrier = [], threading.Barrier(8)

    with assert_traces(f, 4):

        def work(n):
            barrier.wait()
            for _ in range(200):
                if f(X, n).item() != (X * n).sum().item():
                    failures.append(n)

        threads = [threading.Thread(target=work, args=(i % 4,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures


def test_drjit_equal_but_distinct_objects_hit():
    class Key:
        def __eq__(self, other):
            return isinstance(other, Key)

        def __hash__(self):
            return 7

    f = tracehost.function(lambda x, key: x * 2)
    with assert_traces(f, 1):
        for _ in range(3):
            f(X, Key())


def test_drjit_eviction_comes_after_success():
    fail = [False]

    def body(x, n):
        if fail[0]:
            raise ValueError
        return x * n

    f = tracehost.function(body, limit=1)
    f(X, 1)
    fail[0] = True
    with pytest.raises(ValueError):
        f(X, 2)
    assert f.stats()["live"] == 1 and f.stats()["evicted"] == 0
    fail[0] = False
    before = f.tracing_count()
    f(X, 1)
    assert f.tracing_count() == before


# ---- JAX ------------------------------------------------------------------------------------------


def test_jax_equality_that_calls_back_and_raises():
    calls = []

    class Key:
        def __init__(self, f):
            self.f = f

        def __eq__(self, other):
            calls.append(1)
            if len(calls) == 1:
                self.f(X, 3)
            if len(calls) == 2:
                raise RuntimeError("no")
            return isinstance(other, Key)

        def __hash__(self):
            return 1

    f = tracehost.function(lambda x, key: x * 2)
    f(X, Key(f))
    for _ in range(6):
        try:
            assert torch.equal(f(X, Key(f)), X * 2)
        except RuntimeError as error:
            assert str(error) == "no"
    assert torch.equal(f(X, 3), X * 2)


def test_jax_39078_a_full_cache_elsewhere_starves_nobody():
    crowd = [tracehost.function(lambda x, n=n: x * n) for n in range(100)]
    for f in crowd:
        f(X)
    late = tracehost.function(lambda x: x - 1)
    for _ in range(3):
        late(X)
    assert late.tracing_count() == 1 and all(f.tracing_count() == 1 for f in crowd)


def test_zorch_163_metadata_compared_by_identity_is_told():
    class Meta:
        pass

    f = tracehost.function(lambda x, meta: x * 2, name="f")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(5):
            f(X, Meta())
    assert len(seen) == 1 and "'meta'" in str(seen[0].message)


def test_jax_4712_lists_are_values():
    f = tracehost.function(lambda x, axes: x.reshape(2, 2).sum(axes))
    with assert_traces(f, 2):
        for axes in ([0], [0, 1], [0]):
            assert torch.equal(f(X, axes), X.reshape(2, 2).sum(axes))


def test_jax_13992_a_static_that_changes_returns_no_wrong_entry():
    class Config:
        scale = 2.0

    config = Config()
    f = tracehost.function(lambda x, c: x * c.scale)
    with assert_traces(f, 2):
        for scale in (2.0, 3.0, 2.0):
            config.scale = scale
            assert torch.equal(f(X, config), X * scale)


# ---- Dynamo ---------------------------------------------------------------------------------------


def test_dynamo_no_limit_turns_a_function_eager_for_ever():
    f = tracehost.function(lambda x, n: x * n, limit=2)
    for n in range(20):
        f(X, n)
    hits = f.stats()["hits"]
    f(X, 19)
    assert f.stats()["hits"] == hits + 1 and f.stats()["eager"] == 0


def test_dynamo_grad_mode_and_step_counters_are_named():
    class Trainer:
        step = 0

    trainer = Trainer()
    f = tracehost.function(lambda x: x * trainer.step, name="f")
    f(X)
    with torch.no_grad():
        f(X)
    assert "grad mode" in tracehost.events(f)[-1].causes[0]
    trainer.step = 1
    f(X)
    assert "trainer.step" in tracehost.events(f)[-1].causes[0]


# ---- values that look alike -----------------------------------------------------------------------


def test_true_one_and_one_point_zero_differ():
    f = tracehost.function(lambda x, n: (n, type(n).__name__))
    with assert_traces(f, 7):
        for n in (True, 1, 1.0, False, 0, 0.0, -0.0):
            got, name = f(X, n)
            assert name == type(n).__name__ and math.copysign(1, got) == math.copysign(1, n)
    with assert_traces(f, 1):
        f(X, math.nan), f(X, math.nan)


def test_dict_order_list_and_tuple_aliases_and_empty_sizes():
    f = tracehost.function(lambda tree: repr(torch.utils._pytree.tree_structure(tree)))
    a, b = X, X + 1
    trees = [{"a": a, "b": b}, {"b": b, "a": a}, [a, b], (a, b), [a, a], [a[:0], a[:1]]]
    with assert_traces(f, len(trees)):
        for tree in trees + trees:
            f(tree)


def test_a_freed_function_frees_its_graphs():
    class Big:
        pass

    import weakref

    big = Big()
    watch = weakref.ref(big)
    f = tracehost.function(lambda x, held=big: x * 2)
    f(X)
    del f, big
    gc.collect()
    assert watch() is None


def test_recursion_while_tracing_is_an_error_with_a_sentence():
    @tracehost.function
    def f(x):
        return f(x)

    with pytest.raises(tracehost.TraceError, match="calls itself with the signature"):
        f(X)


def test_a_failed_trace_while_others_wait():
    started, release = threading.Event(), threading.Event()
    first = threading.Lock()

    def body(x):
        if first.acquire(blocking=False):
            started.set()
            release.wait()
            raise ValueError("the first")
        return x * 2

    f = tracehost.function(body)
    results = []

    def call():
        try:
            results.append(f(X))
        except ValueError as error:
            results.append(str(error))

    threads = [threading.Thread(target=call)]
    threads[0].start()
    started.wait()
    threads += [threading.Thread(target=call) for _ in range(3)]
    for t in threads[1:]:
        t.start()
    release.set()
    for t in threads:
        t.join()
    assert results.count("the first") == 1
    assert sum(isinstance(r, torch.Tensor) and torch.equal(r, X * 2) for r in results) == 3
