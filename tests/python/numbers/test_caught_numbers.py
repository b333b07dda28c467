"""What an operation on numbers raises, where the body catches it: checked by the graph. And checks, before what raises
for another value."""

import contextlib
import math

import pytest
import torch
import tracehost
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings(
    "ignore::tracehost.RetraceWarning", "ignore::tracehost.TraceWarning"
)

GOOD, BAD = torch.tensor([2.0, 1.0]), torch.tensor([-2.0, 1.0])


def log_or_zero(x):
    try:
        v = math.log(x.sum().item())
    except ValueError:
        v = 0.0
    return x * v


def suppressed(x):
    v = 0.0
    with contextlib.suppress(ValueError):
        v = math.log(x.sum().item())
    return x * v


def divided(x):
    n = int((x > 0).sum())
    try:
        return x / (1 / (n - 1))
    except ZeroDivisionError as error:
        return x * len(str(error))


def in_a_call(x):
    def ratio(n):
        return 6 / (n - 1)

    try:
        return x * ratio(int((x > 0).sum()))
    except ArithmeticError:
        return -x


def finally_after_except(x):
    out = x
    try:
        out = x * int(1 / (int((x > 0).sum()) - 1))
    except ZeroDivisionError:
        out = x - 5
    finally:
        out = out + 1
    return out


@pytest.mark.parametrize("first", ["good", "bad"])
@pytest.mark.parametrize(
    "body", [log_or_zero, suppressed, divided, in_a_call, finally_after_except]
)
def test_a_number_that_may_raise_in_a_try(body, first):
    """It was the handler's result, or what the trace saw, for every later call."""
    f = tracehost.function(body)
    inputs = [GOOD, BAD] if first == "good" else [BAD, GOOD]
    with assert_traces(f, 2):
        for x in inputs * 3:
            assert torch.equal(f(x), body(x))


def test_what_is_told_of_it():
    f = tracehost.function(log_or_zero)
    f(GOOD), f(BAD)
    line = f"test_caught_numbers.py:{log_or_zero.__code__.co_firstlineno + 2}"
    assert [s.signature.rpartition(" with ")[2] for s in f.specializations()] == [
        f"no exception at {line}",
        f"an exception at {line}",
    ]


def test_a_number_that_raises_is_checked_before_effects():
    total = torch.zeros(2)

    def body(x):
        total.add_(x)
        try:
            return x / (1 / (x[0].item() + 2))
        except ZeroDivisionError:
            return total * 2

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for x in (GOOD, BAD, GOOD, BAD):
            before = total.clone()
            expected = body(x)
            after = total.clone()
            total.copy_(before)
            assert torch.equal(f(x), expected) and torch.equal(total, after)


def test_what_raised_behind_something_that_stays_is_rejected():
    def body(x):
        x.resize_(3)
        try:
            return x / (1 / (x[0].item() + 2))
        except ZeroDivisionError:
            return x

    f = tracehost.function(body)
    with pytest.raises(
        tracehost.TraceError,
        match=r"an operation on numbers \(truediv\) raised at test_caught_numbers.py:\d+, and the body continued: a graph "
        r"can't catch what it raises after aten::resize_ at test_caught_numbers.py:\d+",
    ):
        f(BAD.clone())


def test_in_a_loop_it_is_told():
    def body(x):
        n = 3
        while n > x.sum():
            try:
                n = n - 1 / (n - 5)
            except ZeroDivisionError:
                n = n - 1
        return x * n

    f = tracehost.function(body)
    with pytest.warns(tracehost.TraceWarning, match=r"calls truediv at .* in a `try`"):
        f(torch.tensor([1.0, 1.0]))


def test_what_is_raised_out_of_the_body_is_no_trace():
    f = tracehost.function(lambda x: x / (1 / (x[0].item() - 2)))
    with assert_traces(f, 1):
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                f(GOOD)
        assert torch.equal(f(BAD), BAD / (1 / -4.0))
    with assert_traces(f, 0):
        with pytest.raises(ZeroDivisionError):
            f(GOOD)


# ---- a check comes before the op that follows the read


def first_of_selected(x):
    index = torch.where(x > 0)[0]
    if not len(index):
        return x
    return x * index[0]


def largest_of_selected(x):
    selected = x[x > 1]
    if len(selected) == 0:
        return torch.tensor(0.0)
    return selected.max()


def in_a_module(x):
    class Pick(nn.Module):
        def forward(self, x):
            found = x.nonzero()
            return found[0].sum() if len(found) else x.sum().long()

    return Pick()(x)


EMPTY = [
    torch.zeros(3),
    torch.tensor([0.5, 2.0, 3.0]),
    torch.tensor([0.0, 0.0, 4.0]),
    torch.zeros(3) - 1,
]


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("body", [first_of_selected, largest_of_selected, in_a_module])
def test_a_size_that_may_be_zero(body, start, autograph):
    """The branch that is not taken failed on the size of the trace, and so did every later call that took it."""
    f = tracehost.function(body, autograph=autograph)
    for x in (EMPTY[start:] + EMPTY[:start]) * 2:
        assert torch.equal(f(x), body(x))
    assert f.tracing_count() <= 4


def test_a_size_that_may_be_zero_in_a_loop_is_rejected():
    def body(x):
        total = x.sum()
        while total > 0:
            index = torch.where(x > total)[0]
            total = total - 1
            if len(index):
                total = total - index[0]
        return total

    f = tracehost.function(body)
    try:
        for x in EMPTY:
            assert torch.equal(f(x), body(x))
    except tracehost.StagingError as error:
        assert "test_caught_numbers.py" in str(error)  # noqa: PT017 (right, or rejected with its line)
