"""Numpy arrays that a body turns into tensors: constants whose contents each call compares."""

import numpy as np
import pytest
import torch
import tracehost
from core_support import assert_same, place
from tracehost.testing import assert_traces

X = torch.arange(3.0)
TABLE = np.arange(3.0, dtype=np.float32)

CONVERSIONS = {
    "from_numpy": lambda x: x + torch.from_numpy(TABLE),
    "as_tensor": lambda x: x + torch.as_tensor(TABLE),
    "as_tensor with a dtype": lambda x: x + torch.as_tensor(TABLE, dtype=torch.float64),
    "tensor": lambda x: x + torch.tensor(TABLE),
    "tensor of a list": lambda x: x + torch.tensor(np.array([TABLE, TABLE]))[0],
    "asarray": lambda x: x + torch.asarray(TABLE),
    "Tensor": lambda x: x + torch.Tensor(TABLE),
    "new_tensor": lambda x: x + x.new_tensor(TABLE),
    "a part": lambda x: x + torch.from_numpy(TABLE[::2]).sum(),
    "computed": lambda x: x + torch.from_numpy(np.sqrt(TABLE) * 2),
    "a view": lambda x: x + torch.from_numpy(TABLE)[1:2],
    "a copy is returned": lambda x: torch.tensor(TABLE),
    "a mask": lambda x: x[TABLE < 3],
    "stacked": lambda x: torch.stack([torch.from_numpy(TABLE), x]),
}


@pytest.fixture(autouse=True)
def table():
    before = TABLE.copy()
    yield
    TABLE[:] = before


@pytest.mark.parametrize("form", CONVERSIONS)
def test_a_conversion_is_a_constant_that_is_compared(form):
    body = CONVERSIONS[form]
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(2):
            assert_same(f(X), body(X))
    TABLE[:] += 2
    with assert_traces(f, 1):
        for _ in range(2):
            assert_same(f(X), body(X))
    TABLE[:] -= 2
    with assert_traces(f, 0):
        assert_same(f(X), body(X))


def test_an_index_that_numpy_computes():
    f = tracehost.function(lambda x: x[np.array([2, 0])] * torch.from_numpy(np.linspace(0, 1, 2)))
    with assert_traces(f, 1):
        for _ in range(2):
            assert_same(f(X), X[[2, 0]] * torch.linspace(0, 1, 2, dtype=torch.float64))


def test_arrays_of_a_python_loop():
    def body(x):
        for i in range(3):
            x = x + torch.as_tensor(np.array([i, i + 1, i + 2]))
        return x

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for scale in (1, 2):
            assert_same(f(X * scale), body(X * scale))


def in_a_branch(x):
    if x.sum() > 4:
        y = x + torch.from_numpy(TABLE)
    else:
        y = x - torch.from_numpy(TABLE)
    return y


def in_a_loop(x):
    while x.sum() < 100:
        x = x + torch.from_numpy(TABLE)
    return x


@pytest.mark.parametrize("body", [in_a_branch, in_a_loop])
def test_a_constant_of_staged_code(body):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for scale in (1, 2, 3):
            assert_same(f(X * scale), body(X * scale))


def test_gradients_go_past_a_constant():
    f = tracehost.function(lambda x: (x * torch.from_numpy(TABLE)).sum())
    for _ in range(2):
        x = X.clone().requires_grad_()
        f(x).backward()
        assert_same(x.grad, torch.from_numpy(TABLE.copy()))


def test_draws_of_numpy_are_told():
    f = tracehost.function(lambda x: x + torch.from_numpy(np.random.default_rng(0).random(3)))
    with pytest.warns(tracehost.TraceWarning, match="uses numpy.random.random at "):
        f(X)


def test_an_unguarded_function_keeps_the_first_contents():
    f = tracehost.function(lambda x: x + torch.from_numpy(TABLE), watch=False)
    first = f(X)
    TABLE[:] += 1
    assert_same(f(X), first)


REMEDY = (
    "; a graph has a copy of the array. Copy it in the body too (torch.tensor(array)), or pass the "
    "array as an argument."
)
SHARED = torch.ones(3)
SHARED_ARRAY = SHARED.numpy()


def write(x):
    return torch.from_numpy(TABLE).add_(x)  # here


def write_to_a_view(x):
    torch.from_numpy(TABLE)[1:].mul_(2)  # here
    return x * 2


def give_back(x):
    return torch.from_numpy(TABLE)  # here


def give_back_a_view(x):
    return x, [torch.from_numpy(TABLE)[:2]]  # here


def captured_before(x):
    return SHARED + x + torch.from_numpy(SHARED_ARRAY)  # here


def captured_after(x):
    return torch.from_numpy(SHARED_ARRAY) + x + SHARED  # here


SHARES = {
    write: "aten::add_ at {place} writes to",
    write_to_a_view: "aten::mul_ at {place} writes to",
    give_back: "the body returns a tensor in",
    give_back_a_view: "the body returns a tensor in",
    captured_before: "a tensor from outside shares",
    captured_after: "a tensor from outside shares",
}


@pytest.mark.parametrize("body", SHARES, ids=lambda body: body.__name__)
def test_what_a_copy_cannot_do_is_rejected(body):
    f = tracehost.function(body)
    before = TABLE.copy()
    with pytest.raises(tracehost.CaptureError) as error:
        f(X)
    where = place(body)
    expected = SHARES[body].format(place=where)
    assert str(error.value).endswith(
        f"{expected} the memory of a numpy array that the body makes a tensor of at {where}{REMEDY}"
    )
    assert np.array_equal(TABLE, before) and f.stats()["live"] == 0


def test_an_argument_that_shares_the_memory_is_rejected():
    f = tracehost.function(lambda x: torch.from_numpy(SHARED_ARRAY) * x)
    with pytest.raises(tracehost.CaptureError, match="a tensor from outside shares the memory"):
        f(SHARED)


def test_the_remedies_work():
    def copied(x):
        return torch.tensor(TABLE).add_(x)

    f = tracehost.function(copied)
    g = tracehost.function(lambda x, table: torch.as_tensor(table) + x)
    for _ in range(2):
        assert_same(f(X), copied(X))
        assert_same(g(X, TABLE), X + torch.from_numpy(TABLE))
    assert (f.tracing_count(), g.tracing_count()) == (1, 1)
