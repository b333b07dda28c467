"""A for over few rows whose body needs values is unrolled: each row is read for real."""

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

IMAGE = torch.arange(32.0).reshape(1, 2, 4, 4)


def pyramid(sizes):
    total = torch.zeros_like(IMAGE)
    for s in sizes:
        small = F.interpolate(IMAGE, size=(int(s), int(s)))
        total = total + F.interpolate(small, size=IMAGE.shape[-2:])
    return total / len(sizes)


def with_a_break(sizes):
    total = torch.zeros(3)
    for s in sizes:
        if s > 3:
            break
        total = total + torch.ones(int(s), 3).sum(0)
    return total


def with_a_key(sizes):
    total = torch.zeros(1)
    for s in sizes:
        total = total + {1: 1.0, 2: 0.5, 3: 0.25, 4: 0.125}[int(s)]
    return total


@pytest.mark.parametrize("body", [pyramid, with_a_break, with_a_key])
def test_as_eager(body):
    f = tracehost.function(body)
    for values in ([1, 2], [3, 1], [2, 2], [4, 3], [1, 4], [3, 1]):
        sizes = torch.tensor(values)
        assert torch.equal(f(sizes), body(sizes))


def test_a_size_by_a_row_needs_one_trace():
    f = tracehost.function(pyramid)
    with assert_traces(f, 1):
        for values in ([1, 2], [3, 1], [2, 2], [4, 3]):
            assert torch.equal(f(torch.tensor(values)), pyramid(torch.tensor(values)))
