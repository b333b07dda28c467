"""py_function: sizes of its result, and traces without data."""

import pytest
import torch
import tracehost
from core_support import assert_same, counts, place
from tracehost import TensorSpec, py_function
from tracehost.testing import assert_traces

pytestmark = pytest.mark.usefixtures("no_warnings")

X = torch.arange(3.0)
F32 = torch.float32


# ---- sizes ---------------------------------------------------------------------------------------


def test_sizes_of_its_result_are_numbers_of_the_graph():
    def body(x):
        y = py_function(lambda t: t[t > 0], [x], F32)
        return y + y.shape[0], y.shape[0]

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in (X, -X, X + 1, X - 1):
            assert_same(f(x), body(x))


def test_sizes_of_its_result_are_rejected_where_reads_are():
    @tracehost.function(value_reads="error")
    def f(x):
        y = py_function(lambda t: t * 2, [x], F32)
        return y + y.shape[0]  # here

    with pytest.raises(tracehost.ValueReadError) as caught:
        f(X)
    assert "a py_function without shape=" in str(caught.value)
    assert place(f.python_function) in str(caught.value)


def test_declared_sizes_are_known():
    @tracehost.function
    def f(x):
        y = py_function(lambda t: t * 2, [x], F32, shape=x.shape)
        return y + y.shape[0]

    for _ in range(2):
        assert_same(f(X), X * 2 + 3)


def test_dynamic_sizes_do_not_call_it():
    calls = []

    def note(t, n):
        calls.append((tuple(t.shape), n, type(n)))
        return t.sum() * n

    @tracehost.function(reduce_retracing=True)
    def f(x):
        return x * py_function(note, [x, x.shape[0]], F32, shape=[])

    for rows in (2, 3, 4, 5):
        x = torch.ones(rows, 2)
        assert_same(f(x), x * (rows * 2 * rows))
    assert calls == [((n, 2), n, int) for n in (2, 3, 4, 5)]
    assert counts(f)[0] == 2


def test_a_dynamic_size_as_its_shape_becomes_exact():
    @tracehost.function(reduce_retracing=True)
    def f(x):
        return py_function(lambda t: t * 2, [x], F32, shape=x.shape)

    with assert_traces(f, 3):
        for rows in (2, 3, 4):
            assert_same(f(torch.ones(rows, 2)), torch.full((rows, 2), 2.0))


# ---- traces without data -------------------------------------------------------------------------


def test_a_request_does_not_call_it():
    calls = []

    @tracehost.function(watch=False)
    def f(x):
        py_function(lambda t: calls.append(1), [x], None)
        return py_function(lambda t: calls.append(2) or t * 2, [x], F32, shape=[3]) + 1

    with assert_traces(f, 1):
        concrete = f.get_concrete_function(TensorSpec([3]))
        assert calls == []
        assert [spec.shape for spec in concrete.outputs] == [(3,)]
        assert_same(concrete(X), X * 2 + 1)
        assert_same(f(X), X * 2 + 1)
        assert calls == [1, 2, 1, 2]


def no_shape(x):
    return py_function(torch.sin, [x], F32, shape=[None])  # here


def test_a_request_needs_the_shape():
    f = tracehost.function(no_shape)
    with pytest.raises(tracehost.TraceError) as caught:
        f.get_concrete_function(TensorSpec([3]))
    assert str(caught.value) == (
        f"py_function 'sin' at {place(no_shape)} is not called in a trace without example data "
        "(get_concrete_function, warm_up), so the sizes of its results are not known. Give it "
        "shape=, without None, or call the function once with such arguments instead."
    )
    f(X)
    assert_same(f.get_concrete_function(TensorSpec([3]))(X), X.sin())


def test_the_shapes_of_an_open_request_are_not_found_by_calling_it():
    calls = []

    @tracehost.function
    def f(x):
        return x + py_function(lambda: calls.append(1) or 2.0, [], F32, shape=[])

    concrete = f.get_concrete_function(TensorSpec([None, 2]))
    assert [list(spec.shape) for spec in concrete.outputs] == [[None, None]]
    assert calls == []


def test_the_graph_is_readable():
    def halve(t):
        return t / 2

    f = tracehost.function(lambda x: py_function(halve, [x], F32))
    f(X)
    concrete = f.get_concrete_function(X)
    graph = str(concrete.graph)
    assert "%halve : __torch__.torch.classes.tracehost.Callback" in graph
    assert "tracehost::py_function(%halve, " in graph
    assert "ops.tracehost.py_function(CONSTANTS.c0, [x])" in concrete.code
    assert f.specializations()[0].calls_python is True
    other = tracehost.function(lambda x: x * 2)
    other(X)
    assert other.specializations()[0].calls_python is False
