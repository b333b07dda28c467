"""Sizes and storages that a body changes in place."""

import pytest
import torch
import tracehost
from core_support import assert_same, check
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def x4(requires_grad=True):
    return torch.arange(1.0, 5.0, requires_grad=requires_grad)


def larger(x):
    y = torch.empty(1)
    y.resize_(4)
    y.copy_(x)
    return y + 1, y.shape


def smaller(x):
    y = x.detach().clone()
    y.resize_(2)
    z = y * 2
    y.resize_((1, 2))
    return y, z


def as_another(x):
    y = torch.zeros(6)
    y.resize_as_(x)
    return y.copy_(x) * 2


def strided(x):
    y = torch.zeros(0)
    y.resize_(1, 2, 2, 2, memory_format=torch.channels_last)
    return y.fill_(1.0), x


def set_to_another(x):
    y = torch.empty(0)
    y.set_(x.detach())
    y = y + 1
    z = torch.zeros(0)
    z.set_(y)
    z.add_(1)
    return y, z


def out_is_resized(x):
    y = torch.empty(0)
    torch.mul(x.detach(), 2, out=y)
    return y + 1


@pytest.mark.parametrize(
    "body", [larger, smaller, as_another, strided, set_to_another, out_is_resized]
)
def test_sizes_changed_in_place(body):
    check(body, x4())


def test_an_argument_is_resized_by_hits():
    def body(x):
        x.resize_(2)
        return x + 1

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(3):
            mine, theirs = x4(False), x4(False)
            assert_same(f(mine), body(theirs))
            assert_same(mine, theirs)
    with assert_traces(f, 1):
        assert torch.equal(f(mine), mine + 1)


def test_resize_to_a_size_that_may_differ():
    f = tracehost.function(reduce_retracing=True)(
        lambda x: torch.empty(0).resize_(x.shape[0] * 2).fill_(1.0) + x.sum()
    )
    for n in (3, 4, 5, 6):
        x = torch.ones(n)
        assert_same(f(x), torch.ones(2 * n) + n)


@pytest.mark.parametrize(
    "words, body",
    [
        ("Tensor.untyped_storage", lambda x: x.untyped_storage().fill_(0)),  # here
        ("torch.utils.swap_tensors", lambda x: torch.utils.swap_tensors(x * 1, x * 2)),
    ],
)
def test_what_goes_below_tensors_is_rejected(words, body):
    with pytest.raises(tracehost.Error) as error:
        tracehost.function(body)(x4(False))
    assert words in str(error.value)
    assert f"test_state_sizes.py:{body.__code__.co_firstlineno}" in str(error.value)


def test_a_capture_is_resized_by_hits():
    def body(buffer, x):
        size = buffer.shape[0]
        buffer.resize_(size + 1)
        buffer.fill_(float(size))
        return buffer * x

    mine, theirs = torch.zeros(1), torch.zeros(1)
    f = tracehost.function(lambda x: body(mine, x))
    with assert_traces(f, 3):
        for i in range(3):  # another size is another trace
            assert_same(f(torch.ones(())), body(theirs, torch.ones(())))
            assert_same(mine, theirs)


def test_swapped_arguments_are_named():
    """torch counts references before it swaps, and a trace has more of them."""
    f = tracehost.function(lambda x, y: torch.utils.swap_tensors(x, y))
    with pytest.raises(tracehost.TraceError, match=r"swaps two tensors .*outside of the function"):
        f(torch.ones(2), torch.zeros(3))
