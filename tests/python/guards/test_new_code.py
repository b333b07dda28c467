"""The body's function gets new code, as IPython's %autoreload gives it to the functions that are there."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

X = torch.zeros(1)


def plus_one():
    def body(x, by=1):
        return x + by

    return body


def plus_ten():
    def body(x, by=1):
        return x + 10 * by

    return body


def test_a_later_call_runs_the_new_code():
    body = plus_one()
    f = tracehost.function(body)
    with assert_traces(f, 2):
        assert [f(X).item(), f(X).item()] == [1, 1]
        body.__code__ = plus_ten().__code__
        assert [f(X).item(), f(X).item()] == [10, 10]
    body.__code__ = plus_one().__code__
    assert f(X).item() == 1


def test_the_old_graphs_are_not_shown():
    body = plus_one()
    f = tracehost.function(body)
    f(X)
    body.__code__ = plus_ten().__code__
    assert f.specializations() == []
    assert not f.explain(X).hit
    assert f.get_concrete_function(X)(X).item() == 10


def test_a_method():
    class Model:
        @tracehost.function
        def __call__(self, x):
            return x + self.by

    model = Model()
    model.by = 1
    assert model(X).item() == 1

    def other(self, x):
        return x - self.by

    Model.__call__.python_function.__code__ = other.__code__
    assert [model(X).item(), model(X).item()] == [-1, -1]
    bound = tracehost.function(Plain().method)
    assert bound(X).item() == 1
    Plain.method.__code__ = other.__code__
    assert bound(X).item() == -1


class Plain:
    by = 1

    def method(self, x):
        return x + self.by


def test_other_parameters_are_an_error():
    body = plus_one()
    f = tracehost.function(body)
    f(X)
    line = body.__code__.co_firstlineno

    def other(x, factor=1):
        return x + factor

    body.__code__ = other.__code__
    for call in (lambda: f(X), lambda: f.explain(X)):
        with pytest.raises(tracehost.TraceError) as caught:
            call()
        assert str(caught.value) == (
            f"body (test_new_code.py:{line}): the new __code__ of the function has the parameters "
            "('x', 'factor'), the old one had ('x', 'by'). Apply tracehost.function again."
        )
    assert tracehost.function(body)(X).item() == 1


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
def test_a_number_that_varied_in_the_old_code_is_found_out_again():
    counts = {"n": 0}

    def body(x):
        counts["n"] += 1
        return x + counts["n"]

    def other(x):
        return x - counts["n"]

    f = tracehost.function(body)
    assert [f(X).item() for _ in range(4)] == [1, 2, 3, 4]
    body.__code__ = other.__code__
    assert [f(X).item() for _ in range(3)] == [-4, -4, -4]
