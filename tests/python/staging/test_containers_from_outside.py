"""A container from outside that a staged block joins or carries, and a list of tensors that is sorted, as in eager."""

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

CONFIG = (1.0, 2.0)


def of_an_if(x):
    first, _ = CONFIG if x.sum() > 0 else (0.0, 0.0)
    return x * first


def of_a_statement(x):
    config = CONFIG
    if x.sum() < 0:
        config = (5.0, 5.0)
    return x * config[0] + config[1]


def of_a_loop(x):
    config = CONFIG
    for _ in x:
        config = (config[0] + 1.0, config[1])
    return x * config[0]


def of_a_while(x):
    config, i = CONFIG, torch.zeros(())
    while i < x.sum():
        config, i = (config[0] + 1.0, config[1]), i + 1
    return x * config[0]


@pytest.mark.parametrize("body", [of_an_if, of_a_statement, of_a_loop, of_a_while])
def test_another_container_has_other_elements(body, monkeypatch):
    traced = tracehost.function(body)
    for config in ((1.0, 2.0), (1.0, 2.0), (10.0, 2.0), (3.0, 4.0)):
        monkeypatch.setitem(globals(), "CONFIG", config)
        for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
            assert_same(body(x), traced(x))


@pytest.mark.parametrize("body", [of_an_if, of_a_statement, of_a_loop, of_a_while])
def test_the_same_container_needs_one_trace(body):
    traced = tracehost.function(body)
    with assert_traces(traced, 1):
        for _ in range(3):
            traced(torch.ones(3))


def test_sorted_tensors_are_those_of_the_list():
    traced = tracehost.function(lambda xs: sorted(xs, key=torch.sum))
    for values in ([2.0, 1.0, 3.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]):
        xs = [torch.full((2,), v) for v in values]
        assert all(a is b for a, b in zip(traced(xs), sorted(xs, key=torch.sum)))


def ends(x):
    return x[[0, x.shape[0] - 1]]


def without_ends(x):
    y = x.clone()
    y[[0, len(x) - 1]] = 0
    return y


def sizes(x):
    return torch.as_tensor(x.shape[0]), torch.asarray(len(x)), torch.tensor([x.shape[0], 1.5])


@pytest.mark.parametrize("body", [ends, without_ends, sizes])
def test_a_list_with_a_traced_size_is_a_list(body):
    traced = tracehost.function(body, reduce_retracing=True)
    for n in (3, 4, 5, 6):
        x = torch.arange(2.0 * n).reshape(n, 2)
        assert_same(body(x), traced(x))


class Counted:
    def __init__(self):
        self.pair = (0.0, 1.0)


def in_a_loop(x, state):
    for _ in x:
        state.pair = (state.pair[0] + 1, state.pair[1] * 0.5)
    return x * state.pair[0]


def in_a_side(x, state):
    if x.sum() > 0:
        state.pair = (state.pair[0] + 1, state.pair[1] * 0.5)
    return x * state.pair[0]


@pytest.mark.parametrize("body", [in_a_loop, in_a_side])
def test_a_tuple_that_a_block_replaces(body):
    state, twin = Counted(), Counted()
    traced = tracehost.function(body)
    for i in range(6):
        x = torch.ones(3) * (-1) ** i
        assert_same(body(x, twin), traced(x, state))
        assert state.pair == twin.pair
        if i == 3:
            state.pair = twin.pair = (100.0, 1.0)
