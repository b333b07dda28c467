"""An op that fails on a hit raises what it raises in eager, and does nothing else."""

import traceback

import pytest
import torch
import torch.nn.functional as F
import tracehost
from core_support import place
from tracehost.testing import assert_traces

X = torch.arange(4.0)


def caught(call, *args):
    try:
        call(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def embedding(x, i):
    return F.embedding(i, x.view(4, 1)) * 2  # here


def gather(x, i):
    return x.gather(0, i)  # here


def index(x, i):
    return x[i]  # here


def index_select(x, i):
    return x.index_select(0, i)  # here


def nll(x, i):
    return F.cross_entropy(x.view(1, 4), i[:1])  # here


def scatter(x, i):
    return torch.zeros(4).scatter(0, i, 1.0)  # here


def in_a_helper(x, i):
    return index_helper(x * 2, i) + 1


def index_helper(x, i):
    return x.take(i)  # here


FAILING = [
    (embedding, embedding),
    (gather, gather),
    (index, index),
    (index_select, index_select),
    (nll, nll),
    (scatter, scatter),
    (in_a_helper, index_helper),
]


@pytest.mark.parametrize("body, at", FAILING)
def test_an_op_that_fails_on_a_hit_raises_eagers_exception_with_a_note(body, at):
    f = tracehost.function(body)
    good, bad = torch.tensor([1, 2]), torch.tensor([9, 9])
    with assert_traces(f, 1):
        f(X, good)
        expected = caught(body, X, bad)
        line = body.__code__.co_firstlineno
        for _ in range(2):
            got = caught(f, X, bad)
            assert type(got) is type(expected) and str(got) == str(expected)
            assert got.__notes__ == [
                f"in {body.__name__} (test_core_hit_errors.py:{line}), the op at {place(at)}"
            ]
            places = [
                [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
                for error in (got, expected)
            ]
            assert places[0] == places[1]  # the body has raised, and no frame of tracehost's shows
            assert torch.equal(f(X, good), body(X, good))


def test_a_linear_algebra_error_on_a_hit():
    def body(a):
        return torch.linalg.cholesky(a).sum()  # here

    f = tracehost.function(body)
    f(torch.eye(2))
    got, expected = caught(f, -torch.eye(2)), caught(body, -torch.eye(2))
    assert type(got) is type(expected) is torch.linalg.LinAlgError
    assert str(got) == str(expected) and got.__notes__[0].endswith(f"the op at {place(body)}")


def test_a_failure_between_mode_changes_leaves_the_modes():
    def body(x, i):
        with torch.no_grad():
            y = x.index_select(0, i)
        return y + x.sum()

    f = tracehost.function(body)
    x = X.clone().requires_grad_()
    with assert_traces(f, 1):
        f(x, torch.tensor([1]))
        with pytest.raises(IndexError):
            f(x, torch.tensor([9]))
        assert torch.is_grad_enabled() and f(x, torch.tensor([1])).requires_grad


def test_writes_before_the_failing_op_stay_as_in_eager():
    def body(x, i):
        x.add_(1)
        return x.index_select(0, i)

    f = tracehost.function(body)
    f(X.clone(), torch.tensor([1]))
    x = X.clone()
    with pytest.raises(IndexError):
        f(x, torch.tensor([9]))
    assert torch.equal(x, X + 1)


def test_the_failing_op_does_not_write_twice():
    def body(x, i, y):
        x.index_add_(0, i, y)  # fails at its second index, after it has written the first
        return x * 2

    f = tracehost.function(body)
    f(X.clone(), torch.tensor([0, 1]), torch.ones(2))
    ours, theirs = X.clone(), X.clone()
    bad = torch.tensor([0, 9])
    got, expected = caught(f, ours, bad, torch.ones(2)), caught(body, theirs, bad, torch.ones(2))
    assert type(got) is type(expected) and str(got) == str(expected)
    assert torch.equal(ours, theirs)


def test_a_failure_in_backward_is_eagers():
    f = tracehost.function(lambda x: (x * 2).sum())
    x = X.clone().requires_grad_()
    f(x), f(x)
    loss = f(x)
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
