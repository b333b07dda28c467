"""Tensors whose sizes depend on values, taken apart into as many as there are."""

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def rows(x):
    return [row.sum() for row in x[x[:, 0] > 0]]


def classes(x):
    return sum(((x == value).sum() * value for value in torch.unique(x)), torch.zeros(()))


def given_sizes(x):
    positive, negative = x[x > 0], x[x <= 0]
    both = torch.cat((positive, negative))
    a, b = both.split([positive.shape[0], negative.shape[0]])
    return a * 2, b + 1


def pieces(x):
    return x[x > 0].split(2)


def inputs(body):
    for number in range(8):
        x = torch.randn(3, 2, generator=torch.Generator().manual_seed(number))
        yield x.sign() if body is classes else x


@pytest.mark.parametrize(
    "body, most",
    [(rows, 4), (classes, 2), (given_sizes, 1), (pieces, 7)],
)
@pytest.mark.parametrize("autograph", [True, False])
def test_as_eager(body, most, autograph):
    f = tracehost.function(body, autograph=autograph)
    for x in inputs(body):
        expected, got = body(x), f(x)
        assert type(got) is type(expected)
        leaves = map(torch.utils._pytree.tree_leaves, (got, expected))
        assert all(torch.equal(a, b) for a, b in zip(*leaves, strict=True))
    assert f.tracing_count() <= most, f.report()


def test_behind_a_check_the_sizes_are_known():
    def body(x):
        parts = x[x > 0].unbind()
        return len(parts), torch.stack(parts).shape[0]

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for x in (
            torch.tensor([1.0, -1, 2]),
            torch.tensor([3.0, 4, -5]),
            torch.tensor([1.0, 2, 3]),
        ):
            assert f(x) == body(x)


def test_too_many_sizes_run_as_plain_python_with_a_warning_for_the_line():
    def body(x):
        return x[x > 0].unbind()

    f = tracehost.function(body, autograph=False)
    with pytest.warns(
        tracehost.TraceWarning,
        match=r"aten::unbind, a size\) at test_sizes_tak.*, which already has 8 graphs",
    ):
        for n in range(1, 12):
            x = torch.arange(20.0) - 20 + n + 1
            assert f(x) == body(x)
    assert (f.tracing_count(), f.stats()["eager"]) == (8, 3)


def test_a_list_of_a_tensor_whose_size_depends_on_values():
    def body(x):
        return [i * 2 for i in x.nonzero().flatten().tolist()]

    f = tracehost.function(body)
    with assert_traces(f, 4):
        for values in ([1, 0, 2], [0, 0, 0], [1, 2, 3], [0, 4, 5], [7, 0, 0]):
            x = torch.tensor(values)
            assert f(x) == body(x)


def test_reads_that_are_errors_reject():
    f = tracehost.function(lambda x: x[x > 0].unbind(), value_reads="error")
    with pytest.raises(tracehost.ValueReadError, match=r"reads a size \(aten::unbind\)"):
        f(torch.ones(3))


def test_in_a_staged_loop_it_is_rejected_where_no_value_may_be_read():
    @tracehost.function(value_reads="error")
    def f(x, n):
        for _ in range(n):
            x = torch.stack(x[x > 0].unbind())
        return x

    with pytest.raises(tracehost.Error):
        f(torch.ones(3), torch.tensor(2))
