"""A call that fits a specialization runs its graph; any other call traces once."""

import gc
import threading
import warnings

import pytest
import torch
import tracehost
from core_support import check
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def counted():
    """A body that counts how often it runs, where the trace does not watch."""
    runs = []

    def body(x, y):
        runs.append(1)
        return x * y + 1

    return body, runs


@pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning")
def test_the_body_runs_once():
    body, runs = counted()
    f = tracehost.function(body)
    for i in range(5):
        x, y = torch.full((2, 3), float(i)), torch.randn(2, 3)
        assert torch.equal(f(x, y), x * y + 1)
    assert len(runs) == 1
    stats = f.stats()
    assert stats.pop("trace_ms") > 0
    counts = {"calls": 5, "hits": 4, "traces": 1, "eager": 0, "inlined": 0, "live": 1, "evicted": 0}
    counts |= {"failed": 0, "rejected": 0}
    checks = {"validated": 1, "unvalidated": 0, "unvalidated_because": {}, "mismatches": 0}
    graphs = {"captured": 0, "not_captured": 0, "dropped": 0, "device_bytes": 0}  # CUDA's
    assert stats == counts | checks | graphs
    assert f.tracing_count() == f.experimental_get_tracing_count() == 1


@pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning")
def test_the_body_runs_once_for_real_at_the_trace():
    seen = []

    def body(x):
        seen.append(id(x))
        return x.add_(1)

    f = tracehost.function(body)
    x = torch.zeros(2)
    assert f(x) is x
    assert seen == [id(x)] and torch.equal(x, torch.ones(2))


def test_gradients_flow_through_hits():
    def body(x, w):
        return torch.tanh(x @ w).sum(), (x * w.sum()).exp()

    check(body, torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True))


def test_second_derivatives_through_a_hit():
    def body(x):
        return (x**3).sum()

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(3):
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            (first,) = torch.autograd.grad(f(x), x, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x)
            assert torch.equal(second, 6 * x)


def test_backward_accumulates_into_leaves():
    f = tracehost.function(lambda x: (x * 3).sum())
    x = torch.ones(2, requires_grad=True)
    for i in range(1, 4):
        f(x).backward()
        assert torch.equal(x.grad, torch.full((2,), 3.0 * i))


BASE = torch.ones(2, 3)
CHANGES = {
    "dtype": BASE.double(),
    "integer": BASE.int(),
    "shape": torch.ones(3, 2),
    "rank": torch.ones(2, 3, 1),
    "scalar": torch.tensor(1.0),
    "size 1": torch.ones(1, 3),
    "size 0": torch.ones(0, 3),
    "requires_grad": torch.ones(2, 3, requires_grad=True),
    "complex": BASE.to(torch.complex64),
    "sparse": BASE.to_sparse(),
    "meta": torch.ones(2, 3, device="meta"),
    "parameter": torch.nn.Parameter(BASE.clone(), requires_grad=False),
    "conjugate": torch.view_as_complex(torch.ones(2, 3, 2)).conj(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_metadata_traces_and_the_way_back_hits(change):
    f = tracehost.function(lambda x: x * 2)
    other = CHANGES[change]
    with assert_traces(f, 2):
        for count, x in enumerate([BASE, other], 1):
            for _ in range(2):
                got, expected = f(x), x * 2
                assert (got.dtype, got.shape, got.device) == (
                    expected.dtype,
                    expected.shape,
                    expected.device,
                )
                assert got.layout == expected.layout and got.requires_grad == expected.requires_grad
                if not got.is_meta:
                    assert torch.equal(got.to_dense(), expected.to_dense())
                assert f.tracing_count() == count
        f(BASE), f(other)


def test_values_strides_and_history_do_not_trace():
    f = tracehost.function(lambda x: x + 1)
    w = torch.ones(3, 3, requires_grad=True)
    with assert_traces(f, 1):
        f(w)
        for x in (torch.rand(3, 3, requires_grad=True), w.t(), w * 2, w.expand(3, 3), w[:, :3]):
            assert torch.equal(f(x), x + 1)


def test_strides_count_where_the_body_read_them():
    def body(x):
        return x.view(-1) if x.is_contiguous() else x.reshape(-1) * 2

    f = tracehost.function(body)
    x = torch.arange(6.0).view(2, 3)
    y = torch.arange(6.0).view(3, 2).t()
    with assert_traces(f, 2):
        for _ in range(2):
            assert torch.equal(f(x), body(x))
            assert torch.equal(f(y), body(y))


def test_is_leaf_counts_where_the_body_read_it():
    def body(x):
        return x * 2 if x.is_leaf else x * 3

    f = tracehost.function(body)
    leaf = torch.ones(2, requires_grad=True)
    with assert_traces(f, 2):
        for _ in range(2):
            assert torch.equal(f(leaf), leaf * 2)
            assert torch.equal(f(leaf * 1), leaf * 3)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 4), (1, 1), (3, 0, 2)])
def test_empty_and_unit_sizes(shape):
    check(lambda x: (x * 2).sum(-1) if x.dim() else x * 2, torch.randn(shape, requires_grad=True))


def test_many_live_signatures_are_all_found():
    f = tracehost.function(lambda x: x.sum() * x.size(0))
    inputs = [torch.randn(n) for n in range(1, 41)]
    for _ in range(3):
        for x in inputs:
            assert torch.equal(f(x), x.sum() * len(x))
    assert f.tracing_count() == f.stats()["live"] == 40


def test_sixty_tensors_in_and_out():
    def body(*xs):
        return [x * i for i, x in enumerate(xs)]

    check(body, *[torch.randn(2, requires_grad=i % 2 == 0) for i in range(60)])


def test_a_hit_is_silent_and_allocates_no_python_objects_that_stay():
    f = tracehost.function(lambda x: x * 2)
    x = torch.ones(2)
    f(x), f(x)
    gc.collect()
    before = len(gc.get_objects())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(100):
            f(x)
    gc.collect()
    assert len(gc.get_objects()) - before < 20


def test_clear_empties_the_cache_and_keeps_the_counters():
    f = tracehost.function(lambda x: x * 2)
    with assert_traces(f, 2):
        f(torch.ones(2)), f(torch.ones(3))
        f.clear()
        assert f.stats()["live"] == 0
    with assert_traces(f, 1):
        assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))


def test_a_thread_of_its_own_hits_what_another_traced():
    f = tracehost.function(lambda x: x * 2)
    x = torch.ones(2)
    with assert_traces(f, 1):
        f(x)
        results = []
        thread = threading.Thread(target=lambda: results.append(f(x)))
        thread.start()
        thread.join()
        assert torch.equal(results[0], x * 2)
