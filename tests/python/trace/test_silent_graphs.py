"""Programs that random search found to be wrong or unsupported without need, each as small as it gets."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

SMALL = torch.arange(3.0)


def seeded(function, *arguments):
    torch.manual_seed(3)
    return function(*arguments), torch.random.get_rng_state()


@pytest.mark.parametrize(
    "body",
    [
        lambda x: torch.full((2,), True),
        lambda x: torch.full((2,), False, dtype=torch.bool),
        lambda x: torch.full_like(x, True),
        lambda x: x.new_full((3,), True),
        lambda x: torch.where(x > True, True, x),
        lambda x: torch.where(x > 1, True, False),
        lambda x: torch.where(x > 1, True, x > 0),
        lambda x: (x > 1) & True,
        lambda x: torch.scalar_tensor(True),
        lambda x: torch.add(x > 0, x > 1, alpha=True),
        lambda x: torch.arange(False, True, True),
        lambda x: torch.index_fill(x > 0, 0, torch.tensor([1]), True),
        lambda x: torch.nn.functional.pad(x > 0, (1, 1), value=True),
    ],
)
def test_a_bool_is_a_number_where_an_op_takes_one(body):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in (SMALL, SMALL - 1):
            eager, ours = body(x), f(x)
            assert torch.equal(eager, ours) and eager.dtype == ours.dtype


@pytest.mark.parametrize("op", [torch.max, torch.min])
def test_an_op_that_a_graph_would_take_for_another_is_rejected(op):
    f = tracehost.function(lambda x, y: op(x, out=y))
    with pytest.raises(tracehost.TraceError, match=r"unary_out at test_silent_graphs.py:\d+"):
        f(SMALL, torch.zeros(()))


def test_a_list_of_numbers_is_recorded():
    def body(x):
        return torch.gradient(x, spacing=[2.0])[0]

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in (SMALL, -SMALL, SMALL * 3):
            assert torch.equal(f(x), body(x))


def test_a_random_result_that_only_a_dead_write_uses_advances_the_generator():
    def body(x):
        noise = torch.rand(3)
        noise.add_(1)
        noise.unsqueeze_(0)
        return x + torch.rand(3)

    f = tracehost.function(body)
    for _ in range(3):
        (eager, after), (ours, ours_after) = seeded(body, SMALL), seeded(f, SMALL)
        assert torch.equal(eager, ours) and torch.equal(after, ours_after)


def test_a_random_result_in_a_branch_that_only_a_dead_write_uses_advances_the_generator():
    def body(x):
        if x.sum() > 0:
            noise = torch.rand(3)
            noise.add_(1)
            x = x * 2
        return x + torch.rand(3)

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in (SMALL, -SMALL, SMALL):
            (eager, after), (ours, ours_after) = seeded(body, x), seeded(f, x)
            assert torch.equal(eager, ours) and torch.equal(after, ours_after)


@pytest.mark.filterwarnings("ignore")
def test_a_capture_that_the_body_resizes_is_compared_as_it_was_before():
    def make():
        kept = torch.zeros(2, 3)

        def body(x):
            parts = kept.unbind()
            torch.add(x, 1, out=kept)
            return len(parts), parts[-1] * 2, kept * 1

        return body

    eager, ours = make(), tracehost.function(make())
    for _ in range(3):
        expected, got = eager(SMALL), ours(SMALL)
        assert expected[0] == got[0]
        assert torch.equal(expected[1], got[1]) and torch.equal(expected[2], got[2])


def test_contiguous_may_be_the_first_use_of_a_capture():
    weight = torch.ones(3, requires_grad=True)
    f = tracehost.function(lambda x: weight.contiguous() * x)
    with assert_traces(f, 1):
        f(SMALL)
        weight.data.fill_(5)
        (gradient,) = torch.autograd.grad(f(SMALL).sum(), weight)
        assert f(SMALL).tolist() == [0, 5, 10] and torch.equal(gradient, SMALL)


def test_what_contiguous_gives_depends_on_the_strides():
    def body(x):
        y = x.contiguous()
        x.fill_(1)
        return y, x

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for turned in (False, True, False, True):
            x, own = (torch.arange(6.0).reshape(2, 3) for _ in range(2))
            if turned:
                x, own = (t.t().contiguous().t() for t in (x, own))
            expected, got = body(x), f(own)
            assert got[1] is own and (got[0] is own) == (expected[0] is x)
            for a, b in zip(expected, got):
                assert torch.equal(a, b) and a.stride() == b.stride()


def test_a_write_to_what_a_loop_began_with_is_made():
    def body(x, limit):
        while x.sum() > limit:
            x = x / 2
        x.detach().add_(1)
        return limit * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for limit in (1.0, 100.0, 1.0, 100.0):
            x, own = torch.full((3,), 2.0), torch.full((3,), 2.0)
            body(x, torch.tensor(limit))
            f(own, torch.tensor(limit))
            assert torch.equal(x, own)


def test_what_leaves_a_branch_under_no_grad_keeps_its_history():
    def body(x):
        y = x * 2
        with torch.no_grad():
            if x.sum() > 0:
                z = y
            else:
                z = y * 3
        return z

    f = tracehost.function(body)
    for values in (SMALL, -SMALL, SMALL):
        x, own = (values.clone().requires_grad_() for _ in range(2))
        expected, got = body(x), f(own)
        assert expected.requires_grad == got.requires_grad and torch.equal(expected, got)
        if expected.requires_grad:
            expected.sum().backward()
            got.sum().backward()
            assert torch.equal(x.grad, own.grad)
