"""Functions that call Functions: inlined while tracing; recursion ends or is unsupported."""

import subprocess
import sys

import pytest
import torch
import tracehost
from core_support import check
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


def test_a_nested_function_is_inlined_and_counted():
    inner = tracehost.function(lambda x, n: x * n + 1)
    with assert_traces(inner, 1):
        outer = tracehost.function(lambda x: inner(x, 2) * inner(x, n=3))
        for _ in range(3):
            assert torch.equal(outer(X), (X * 2 + 1) * (X * 3 + 1))
        assert outer.tracing_count() == 1 and inner.tracing_count() == 0
        stats = inner.stats()
        assert (stats["inlined"], stats["calls"], stats["live"]) == (2, 0, 0)
        assert torch.equal(inner(X, 2), X * 2 + 1)
        assert inner.stats()["calls"] == 1


def test_gradients_through_three_levels():
    a = tracehost.function(lambda x: x * x)
    b = tracehost.function(lambda x: a(x).sum() * x)
    c = check(lambda x: (b(x), a(x)), X.clone().requires_grad_())
    assert c.stats()["hits"] == 2 and b.stats()["inlined"] == 1
    assert a.stats()["inlined"] == 2 + 1  # in the trace of c, and in b's own


def test_a_function_that_has_traced_is_inlined_all_the_same():
    w = torch.ones(3)
    inner = tracehost.function(lambda x: x * w)
    inner(X)
    outer = tracehost.function(lambda x: inner(x) + 1)
    for n in range(1, 4):
        assert torch.equal(outer(X), X * w + 1)
        w.add_(n)
    assert inner.tracing_count() == outer.tracing_count() == 1


def test_a_nested_function_may_return_anything():
    inner = tracehost.function(lambda x: {x.shape[0]: (v for v in [x, x])})
    outer = tracehost.function(lambda x: sum(inner(x)[3]))
    for _ in range(2):
        assert torch.equal(outer(X), X * 2)


def test_an_exception_of_a_nested_function_may_be_caught():
    @tracehost.function
    def inner(x):
        raise ValueError

    def body(x):
        try:
            return inner(x)
        except ValueError:
            return x * 2

    outer = check(body, X)
    assert inner.stats()["inlined"] == outer.tracing_count() == 1


def test_a_rejection_in_a_nested_function_is_the_outer_calls():
    inner = tracehost.function(lambda x: x.numpy().tolist()[0])
    outer = tracehost.function(lambda x: x * inner(x))
    with pytest.raises(tracehost.ValueReadError):
        outer(X)
    assert outer.stats()["live"] == inner.stats()["live"] == 0


def test_recursion_with_the_signature_being_traced_is_rejected():
    @tracehost.function
    def f(x):
        return f(x * 2)

    line = f.python_function.__code__.co_firstlineno
    with pytest.raises(tracehost.TraceError) as error:
        f(X)
    assert str(error.value) == (
        f"f (test_core_nesting.py:{line}) calls itself with the signature that is being traced: the "
        "graph would have no end. Recur on a Python value that changes, or call its python_function."
    )
    assert f.stats()["live"] == 0


def test_mutual_recursion_is_rejected():
    @tracehost.function
    def even(x):
        return odd(x)

    @tracehost.function
    def odd(x):
        return even(x)

    with pytest.raises(tracehost.TraceError, match="calls itself with the signature"):
        even(X)


def test_recursion_on_a_python_number():
    @tracehost.function
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    for _ in range(2):
        assert torch.equal(power(X, 4), X**4)
    stats = power.stats()
    assert (stats["traces"], stats["inlined"], stats["hits"]) == (1, 3, 1)


def test_recursion_on_a_shape():
    @tracehost.function
    def total(x):
        half = len(x) // 2
        return x[0] if len(x) == 1 else total(x[:half]) + total(x[half:])

    with assert_traces(total, 1):
        for _ in range(2):
            assert torch.equal(total(torch.arange(8.0)), torch.tensor(28.0))


def test_calling_python_function_inside_of_itself():
    @tracehost.function
    def f(x, depth=[3]):
        return x * 2

    outer = tracehost.function(lambda x: f.python_function(f(x)))
    for _ in range(2):
        assert torch.equal(outer(X), X * 4)


def test_a_function_as_an_argument():
    double, triple = tracehost.function(lambda x: x * 2), tracehost.function(lambda x: x * 3)
    apply = tracehost.function(lambda g, x: g(x))
    with assert_traces(apply, 2):
        for _ in range(2):
            assert torch.equal(apply(double, X), X * 2) and torch.equal(apply(triple, X), X * 3)


def test_a_trace_within_a_grad_mode_of_the_outer_body():
    inner = tracehost.function(lambda x: x * 2)

    def body(x):
        with torch.no_grad():
            a = inner(x)
        return a, inner(x)

    check(body, X.clone().requires_grad_())


@pytest.mark.filterwarnings("ignore:.torch.jit.trace.:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit.trace.:FutureWarning")
def test_graphs_of_torchs_own_trace_tell_their_lines_as_ever():
    script = (
        "import torch\n"
        "{first}\n"
        "def inner(x):\n    return x * 2\n"
        "graph = torch.jit.trace(lambda x: inner(x) + 1, torch.ones(2)).graph\n"
        "for node in graph.nodes(): print(node, node.sourceRange())\n"
    )
    ours = "import tracehost; tracehost.function(lambda x: x * 2)(torch.ones(2))"
    without, after = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script.format(first=first)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for first in ("", ours)
    )
    assert "<string>(4): inner" in without and without == after


@pytest.mark.filterwarnings("ignore:.torch.jit.trace.:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit.trace.:FutureWarning")
def test_a_call_inside_of_torchs_own_trace_is_inlined():
    inner = tracehost.function(lambda x: x * 2)
    with assert_traces(inner, 0):
        traced = torch.jit.trace(lambda x: inner(x) + 1, X, check_trace=False)
        assert torch.equal(traced(X + 1), (X + 1) * 2 + 1)
