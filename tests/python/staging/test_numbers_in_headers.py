"""A tensor's number in the header of a `for`, beside sizes that are dynamic: each call has its own."""

import pytest
import torch
import tracehost


def start_of_enumerate(x, k):
    s = 0
    for i, v in enumerate(x, start=int(k)):
        s = s + i * v
    return s


def start_by_place(x, k):
    s, start = 0, int(k) * 2 + 1
    for i, v in enumerate(x, start):
        s = s + i * v
    return s


def step_of_range(x, k):
    s = x.sum()
    for i in range(0, 6, int(k) + 1):
        s = s + i
    return s


def start_of_range(x, k):
    s = x.sum()
    for i in range(int(k), 5):
        s = s + i
    return s


def size_and_number(x, k):
    s = x.sum()
    for i in range(0, x.shape[0] + int(k), 2):
        s = s + i
    return s


CASES = [start_of_enumerate, start_by_place, step_of_range, start_of_range, size_and_number]


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning", "ignore::tracehost.TraceWarning")
@pytest.mark.parametrize("body", CASES)
@pytest.mark.parametrize("size", [None, 3])
def test_from_specs(body, size):
    specs = [tracehost.TensorSpec([size]), tracehost.TensorSpec([], torch.int64)]
    f = tracehost.function(body, input_signature=specs)
    for n, k in ((3, 2), (3, 0), (3, 1), (5, 1), (1, 3)):
        x, k = torch.ones(size or n), torch.tensor(k)
        assert torch.equal(f(x, k), body(x, k))


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning", "ignore::tracehost.TraceWarning")
@pytest.mark.parametrize("body", CASES)
def test_of_sizes_that_become_dynamic(body):
    f = tracehost.function(body, reduce_retracing=True)
    for n, k in ((3, 2), (4, 0), (5, 1), (5, 3), (2, 2)):
        x, k = torch.ones(n), torch.tensor(k)
        assert torch.equal(f(x, k), body(x, k))
