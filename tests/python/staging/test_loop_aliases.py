"""A staged loop leaves a tensor from around it in a variable: it is that tensor, as in eager code."""

import pytest
import torch
import tracehost
from core_support import assert_same
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def changed_behind_it(x):
    total, kept = x.sum(), torch.ones(())
    for _ in x:
        kept = total
    total *= 2
    return kept, total


def changed_by_a_later_iteration(x):
    total, left = x.sum(), torch.ones(())
    for _ in x:
        left += -1
        left = total
    return left, total


def changed_by_the_other_name(x):
    total, kept, i = x.sum(), torch.ones(()), 0
    while i < x.abs().sum():
        kept = total
        i = i + 1
    kept += 5
    return kept, total


def chosen_in_a_branch(x):
    total, kept = x.sum(), torch.zeros(())
    for row in x:
        if row > 0:
            kept = total
        else:
            kept = row * 1
    total += 1
    return kept, total


def drawn_before_it(x):
    drawn, kept = torch.rand(()), torch.ones(())
    for row in x:
        if row > 0:
            kept = drawn
    return kept, drawn


def drawn_for_each(x):
    drawn, kept = torch.rand(()), torch.ones(())
    for _ in x:
        kept = drawn
    return kept, drawn, torch.rand(())


def joined_before_it(x):
    if x.sum() > 0:
        most = x.max()
    else:
        most = x.min()
    kept, i = torch.zeros(()), 0
    while i < 2 + x.abs().sum():
        i = i + 1
        kept = most
    return kept, most


BODIES = [
    changed_behind_it,
    changed_by_a_later_iteration,
    changed_by_the_other_name,
    chosen_in_a_branch,
    drawn_before_it,
    drawn_for_each,
    joined_before_it,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_what_a_loop_leaves_is_the_tensor_from_around_it(body):
    f = tracehost.function(body)
    for values in ([1.0, 2.0, 3.0], [1.0, -1.0, 1.0], [-1.0, -2.0, -3.0]):
        states = []
        results = []
        for call in (f, body):
            torch.manual_seed(3)
            results.append(call(torch.tensor(values)))
            states.append(torch.get_rng_state())
        assert_same(*results)
        assert torch.equal(*states)
    assert (f.tracing_count(), f.stats()["hits"], f.stats()["mismatches"]) == (1, 2, 0)


def test_what_a_loop_uses_in_each_turn_stays_for_all_of_them():
    """libtorch's bytecode may load a value before a loop that it runs where the result is used."""

    def body(x):
        row = [10, 20, 30][x.sum().int().item()]
        n = 3.0
        while n > x.sum():
            n = n - 1 / (n - 5)
        return x * n + row

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for values in ([1.0, 1.0], [1.0, 0.0], [1.0, 1.0]):
            x = torch.tensor(values)
            assert torch.equal(f(x), body(x))
