"""A TensorArray whose size is the value of a tensor: one trace for all values, each with its own size."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces


def squares(count):
    out = tracehost.TensorArray(torch.float32, size=count)
    for i in range(count):
        out.write(i, torch.full((2,), 1.0) * i)
    return out.stack() * 1, out.size() * 1


@pytest.mark.parametrize("first", [3, 1, 5])
def test_one_trace_serves_all_sizes(first):
    staged = tracehost.function(squares)
    with assert_traces(staged, 1):
        for count in (first, 3, 1, 5):
            rows, size = staged(torch.tensor(count))
            torch.testing.assert_close(rows, torch.arange(float(count))[:, None].expand(count, 2))
            assert size == count


def test_gradients_and_a_branch():
    def body(x, count):
        out = tracehost.TensorArray(torch.float32, size=count)
        for i in range(count):
            if x.sum() > 0:
                out.write(i, x * i)
            else:
                out.write(i, -x)
        return out.stack().sum()

    staged = tracehost.function(body)
    with assert_traces(staged, 1):
        for sign in (1.0, -1.0):
            for count in (2, 4):
                x = torch.full((3,), sign, requires_grad=True)
                y = torch.full((3,), sign, requires_grad=True)
                body(x, torch.tensor(count)).backward()
                staged(y, torch.tensor(count)).backward()
                torch.testing.assert_close(y.grad, x.grad)


def test_it_is_made_in_a_loop():
    def body(x, count):
        total = torch.zeros(2)
        for i in range(count):
            out = tracehost.TensorArray(torch.float32, size=i + 1)
            for j in range(i + 1):
                out.write(j, x * j)
            total = total + out.stack().sum(0)
        return total

    staged = tracehost.function(body)
    with assert_traces(staged, 1):
        for count in (3, 0, 2):
            expected = body(torch.ones(2), count)
            torch.testing.assert_close(staged(torch.ones(2), torch.tensor(count)), expected)


def test_its_size_stays():
    staged = tracehost.function(
        lambda n, i: tracehost.TensorArray(size=n).write(i, torch.ones(2)).read(i)
    )
    assert staged(torch.tensor(3), torch.tensor(2)).tolist() == [1, 1]
    message = "element 2 is written to a TensorArray of size 2"
    with pytest.raises(IndexError, match=message):
        staged(torch.tensor(2), torch.tensor(2))
    with pytest.raises(IndexError, match=message):
        tracehost.TensorArray(size=torch.tensor(2)).write(2, torch.ones(2))
    with pytest.raises(ValueError, match="append to a TensorArray whose size is given"):
        tracehost.function(lambda n: tracehost.TensorArray(size=n).append(torch.ones(2)).stack())(
            torch.tensor(2)
        )


@pytest.mark.parametrize("size", [torch.tensor(1.5), torch.tensor([1, 2]), torch.tensor(True)])
def test_a_size_is_one_integer(size):
    with pytest.raises(TypeError, match="a TensorArray's size is an integer or an integer tensor"):
        tracehost.TensorArray(size=size)
    with pytest.raises(TypeError, match="a TensorArray's size is an integer or an integer tensor"):
        tracehost.function(lambda n: tracehost.TensorArray(size=n).size())(size)


def test_a_negative_size():
    message = "TensorArray's size must be at least 0, not -1"
    with pytest.raises(ValueError, match=message):
        tracehost.TensorArray(size=torch.tensor(-1))
    staged = tracehost.function(lambda n: tracehost.TensorArray(size=n).size() * 1)
    assert staged(torch.tensor(2)) == 2
    with pytest.raises(ValueError, match=message):
        staged(torch.tensor(-1))
