"""A number that a loop makes a tensor (`total = 0`): a call without an iteration returns the number."""

import pytest
import torch
import tracehost
from autograph_support import counting
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
TRACES = {}
traces = counting(TRACES)
X = torch.tensor([0.3, 0.7, -0.2, 0.9])


@traces(2)
def in_a_for(n):
    total = 0
    for i in range(n):
        total = total + X[i]
    return total


@traces(2)
def in_a_while(n):
    total, left = 0.5, n
    while left > 0:
        total = total * X[0]
        left = left - 1
    return total


@traces(2)
def of_float16(n):
    """As a float16 tensor the number would be rounded before the product."""
    total = 0.1
    for _ in range(n):
        total = total * X.half()
    return total


@traces(2)
def of_int8(n):
    """As an int8 tensor the number would overflow."""
    total = 300
    for _ in range(n):
        total = total - X.to(torch.int8)
    return total


@traces(2)
def asked_for_its_type(n):
    total = 0
    for i in range(n):
        total = total + X[i]
    return "nothing" if isinstance(total, int) else total


@traces(2)
def in_a_dict(n):
    state = {"sum": 0, "turns": 0.0}
    for i in range(n):
        state["sum"] = state["sum"] + X[i]
        state["turns"] += 1
    return state


@traces(3)
def in_a_loop_in_a_loop(n):
    total = 0
    for i in range(n):
        part = 0
        for j in range(n - 1):
            part = part + X[j]
        total = total + part * i
    return total


@traces(2)
def in_a_loop_in_a_side(n):
    total = 0
    if n != 7:
        for i in range(n):
            total = total + X[i]
    return total


@pytest.mark.parametrize("body", TRACES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("order", [(3, 0, 1, 2, 0, 3, 1), (0, 2, 0, 1, 3, 0, 3)])
def test_as_eager(body, order):
    f = tracehost.function(body)
    with assert_traces(f, TRACES[body]):
        for n in map(torch.tensor, order):
            assert repr(f(n)) == repr(body(n)), n


def test_from_specs_it_is_a_tensor_from_the_start():
    f = tracehost.function(in_a_for).get_concrete_function(tracehost.TensorSpec([], torch.int64))
    assert repr(f(torch.tensor(0))) == "tensor(0.)"
    assert repr(f(torch.tensor(2))) == repr(in_a_for(torch.tensor(2)))
