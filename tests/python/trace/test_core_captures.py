"""Tensors that the body did not get as arguments: held ones, literals, and those that are rejected."""

import threading

import numpy as np
import pytest
import torch
import tracehost
from core_support import check, place
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


def test_a_tensor_of_the_closure_is_an_input_not_a_constant():
    w = torch.ones(3, requires_grad=True)
    f = tracehost.function(lambda x: (x * w).sum())
    with assert_traces(f, 1):
        for step in range(3):
            value = f(X)
            assert torch.equal(value, (X * w).sum()) and value.requires_grad
            (grad,) = torch.autograd.grad(value, w)
            assert torch.equal(grad, X)
            with torch.no_grad():
                w.add_(1)


def test_changed_metadata_of_a_capture_traces():
    w = torch.ones(3)
    f = tracehost.function(lambda x: x * w)
    with assert_traces(f, 2):
        f(X)
        w.requires_grad_()
        assert f(X).requires_grad
    w.requires_grad_(False)
    with assert_traces(f, 0):
        assert not f(X).requires_grad
    w.data = torch.ones(3, dtype=torch.float64) * 2
    with assert_traces(f, 1):
        assert torch.equal(f(X), X.double() * 2)
    w.data = torch.ones(1) * 4
    with assert_traces(f, 1):
        assert torch.equal(f(X), X * 4)


def test_a_write_to_a_capture_repeats():
    total = torch.zeros(3)

    def body(x):
        total.add_(x)
        return total * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for n in range(1, 4):
            assert torch.equal(f(X), X * n * 2) and torch.equal(total, X * n)


def test_a_training_loop_is_eagers_to_the_bit():
    def losses(decorate):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        step = decorate(lambda x, y: ((net(x) - y) ** 2).mean())
        result = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = step(torch.randn(6, 3), torch.randn(6, 1))
            loss.backward()
            optimizer.step()
            result.append(loss.item())
        return result, step

    eager, _ = losses(lambda f: f)
    ours, step = losses(tracehost.function)
    assert ours == eager and step.tracing_count() == 1


LITERALS = {
    "list": lambda x: torch.tensor([1.0, 2.0, 3.0]),
    "scalar": lambda x: torch.tensor(2.0),
    "nested": lambda x: torch.tensor([[1.0], [2.0]]),
    "typed": lambda x: torch.tensor([1, 2, 3], dtype=torch.float64),
    "tensor of sizes": lambda x: torch.tensor(x.shape) * 1.0,
    "zeros": lambda x: torch.zeros(3),
    "full": lambda x: torch.full((3,), 2.5),
    "as_tensor": lambda x: torch.as_tensor([1.0, 2.0, 3.0]),
    "new_tensor": lambda x: x.new_tensor([1.0, 2.0, 3.0]),
    "Tensor": lambda x: torch.Tensor([1.0, 2.0, 3.0]),
    "FloatTensor": lambda x: torch.FloatTensor([1.0, 2.0, 3.0]),
    "empty": lambda x: torch.tensor([]).sum(),
    "arange": lambda x: torch.arange(3.0),
    "eye": lambda x: torch.eye(3),
}


@pytest.mark.parametrize("name", LITERALS)
def test_a_literal_is_fresh_at_each_call(name):
    def body(x):
        t = LITERALS[name](x)
        before = t + 0
        t.add_(1)
        return before, t, (x * t).sum()

    f = check(body, X.clone().requires_grad_(), calls=4)
    first, second = f(X)[1], f(X)[1]
    assert first is not second and first.data_ptr() != second.data_ptr()


def test_a_literal_that_requires_grad():
    def body(x):
        w = torch.tensor([1.0, 2.0, 3.0])
        return (x * w).sum() * torch.tensor(2.0)

    check(body, X.clone().requires_grad_())


def test_a_returned_literal_is_the_callers_own():
    f = tracehost.function(lambda: torch.tensor([1.0, 2.0]))
    with assert_traces(f, 1):
        f()
        f().zero_()
        assert torch.equal(f(), torch.tensor([1.0, 2.0]))


ARRAY = np.ones(3, dtype=np.float32)


def from_buffer(x):
    return x + torch.frombuffer(bytearray(12), dtype=torch.float32)  # here


def from_capsule(x):
    return x + torch.from_dlpack(ARRAY)  # here


@pytest.mark.parametrize("body", [from_buffer, from_capsule])
def test_memory_that_is_not_torchs_is_rejected(body):
    f = tracehost.function(body)
    with pytest.raises(tracehost.CaptureError, match=f" at {place(body)}"):
        f(X)
    assert f.stats()["live"] == 0


def test_a_numpy_number_is_a_number():
    check(lambda x: x * float(ARRAY[0]) + int(np.int64(2)) * x, X)


def test_a_copy_of_an_array_made_before_is_a_capture():
    t = torch.from_numpy(ARRAY.copy())
    f = tracehost.function(lambda x: x + t)
    with assert_traces(f, 1):
        f(X)
        t.add_(1)
        assert torch.equal(f(X), X + 2)


def test_a_tensor_that_another_thread_made_meanwhile_is_rejected():
    box = {}

    def make():
        box["t"] = torch.ones(3)

    def body(x):
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return x + box["t"]  # here

    with pytest.raises(
        tracehost.CaptureError, match=f" at {place(body)} was made during the trace"
    ):
        tracehost.function(body)(X)


def test_a_view_of_storage_is_rejected():
    source = torch.arange(6.0)

    def body(x):
        return x + torch.tensor([]).set_(source.untyped_storage(), 0, (3,), (1,))

    with pytest.raises(tracehost.Error, match="test_core_captures.py"):
        tracehost.function(body)(X)


def test_the_same_tensor_as_argument_and_capture():
    w = torch.ones(3)

    def body(x):
        x.add_(1)
        return x * w

    f = tracehost.function(body)
    with assert_traces(f, 2):
        assert torch.equal(f(w), torch.full((3,), 4.0))  # 2 * 2
        assert torch.equal(f(torch.ones(3)), torch.full((3,), 4.0))  # 2 * 2: w keeps its 2
        assert torch.equal(f(w), torch.full((3,), 9.0))


def test_two_paths_to_one_tensor_and_their_parting():
    a = torch.ones(3)
    b = a

    def body(x):
        a.add_(1)
        return x * b

    f = tracehost.function(body)
    assert torch.equal(f(X), X * 2)
    b = torch.full((3,), 10.0)
    assert torch.equal(f(X), X * 10) and torch.equal(a, torch.full((3,), 3.0))


def test_a_wrapped_number_is_a_plain_constant():
    check(lambda x: torch.where(x > 1, 2.0, x) + torch.add(x, 3), X.clone().requires_grad_())
