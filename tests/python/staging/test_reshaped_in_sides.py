"""A side of an if, or a loop's body, that changes the shape of a tensor from before it in place."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

ROWS = torch.ones(3, 4)


def result_of_op(x, v):
    if x.sum() > 0:
        torch.add(ROWS, 1, out=v)
    else:
        v.add_(1)
    return x * v.shape[0], v


def resized(x, v):
    if x.sum() > 0:
        v.resize_(5).zero_()
    return x * v.shape[0], v


def transposed(x, v):
    if x.sum() > 0:
        v.t_()
    else:
        v.mul_(2)
    return x * v.shape[0], v


def new_dimension(x, v):
    if x.sum() > 0:
        v.unsqueeze_(0)
    return x * v.dim(), v


def other_memory(x, v):
    if x.sum() > 0:
        v.set_(torch.zeros(7))
    return x * v.shape[0], v


def in_a_helper(x, v):
    def grow(v):
        v.resize_(6).zero_()

    if x.sum() > 0:
        grow(v)
    return x * v.numel(), v


def inner_side(x, v):
    if x.sum() > 0:
        if x.mean() > 2:
            v.resize_(8).zero_()
        x = x * v.shape[0]
    return x + v.shape[0], v


def both_sides(x, v):
    if x.sum() > 0:
        v.resize_(2).zero_()
    else:
        v.resize_(9).zero_()
    return x * v.shape[0], v


def ternary(x, v):
    y = v.resize_(6).zero_() if x.sum() > 0 else v
    return x * v.shape[0], y


IFS = (result_of_op, resized, transposed, new_dimension, in_a_helper, both_sides, ternary)  # fmt: skip


def own(body):
    """Of a tensor that the body makes."""

    def f(x):
        v = torch.zeros(4, 1)
        return body(x, v)

    return f


def outcomes(f, values):
    results = []
    for value in values:
        scaled, v = f(torch.full((1,), value))
        results.append((scaled.tolist(), v.tolist()))
    return results


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("values", [(1.0, -1.0, 1.0, 2.0, -2.0), (-1.0, 1.0, -3.0, 2.0)])
@pytest.mark.parametrize("body", IFS, ids=lambda body: body.__name__)
def test_if(body, values):
    f = tracehost.function(own(body))
    with assert_traces(f, 2):
        assert outcomes(f, values) == outcomes(own(body), values)


@pytest.mark.parametrize(
    "values", [(1.0, -1.0, 3.0, 1.0), (-1.0, 3.0, 1.0, -2.0), (3.0, 1.0, -1.0)]
)
@pytest.mark.parametrize("body", [inner_side, other_memory], ids=lambda body: body.__name__)
def test_values_of(body, values):
    assert outcomes(tracehost.function(own(body)), values) == outcomes(own(body), values)


def test_a_tensor_of_the_side_itself_may_be_reshaped():
    def f(x):
        if x.sum() > 0:
            v = torch.zeros(2)
            v.resize_(5).zero_()
            v.unsqueeze_(0)
            x = x + v.shape[1]
        return x

    g = tracehost.function(f)
    with assert_traces(g, 1):
        for value in (1.0, -1.0, 2.0):
            x = torch.full((1,), value)
            assert g(x).tolist() == f(x).tolist()


def resizes_later(x, n):
    v = torch.zeros(2)
    for i in range(n):
        if i == 1:
            v.resize_(3).zero_()
    return x * v.shape[0]


def carries(x, n):
    v = torch.zeros(2, 3)
    for _ in range(n):
        v = v.t_()
    return x * v.shape[0]


def adds_dimensions(x, n):
    v = torch.zeros(2)
    for _ in range(n):
        v = v.unsqueeze_(0)
    return x * v.shape[0]


def joins(x, n):
    v = torch.zeros(1)
    i = 0
    while i < n:
        torch.cat([torch.ones(2), torch.ones(3)], out=v)
        i += 1
    return x * v.shape[0]


LOOPS = (resizes_later, carries, adds_dimensions, joins)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("counts", [(3, 1, 2, 0, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("body", LOOPS, ids=lambda body: body.__name__)
def test_loop_is_unrolled(body, counts):
    f = tracehost.function(body)
    for count in counts:
        x, n = torch.ones(1), torch.tensor(count)
        assert f(x, n).tolist() == body(x, n).tolist()


@pytest.mark.parametrize("body", [carries, adds_dimensions], ids=lambda body: body.__name__)
def test_loop_in_a_trace_without_values(body):
    f = tracehost.function(body)
    message = (
        r"at .*test_reshaped_in_sides.py:\d+ changes the shape or requires_grad of a tensor in place, in a branch or "
        "loop that is staged. Use an op that returns a new tensor."
    )
    with pytest.raises(tracehost.StagingError, match=message):
        f.get_concrete_function(tracehost.TensorSpec([1]), tracehost.TensorSpec([], torch.int64))
