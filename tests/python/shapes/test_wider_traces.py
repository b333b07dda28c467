"""Under reduce_retracing a trace for more sizes than the call's may be unsupported: the exact ones stay."""

import warnings

import pytest
import torch
import tracehost

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def steps(x, lengths):
    total = x.new_zeros(x.shape[1])
    for t in tracehost.range(lengths.max()):
        total = total + x[t]
    return total


def numbers(x):
    return x * x.numpy().sum() if x.shape[0] > 3 else x + 1


def plain_steps(x, lengths):
    return x[: int(lengths.max())].sum(0)


def test_a_range_of_int32_with_an_open_size():
    f = tracehost.function(steps, reduce_retracing=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tracehost.TraceWarning)
        for rows in (3, 5, 3, 7, 5, 7, 9, 9, 7):
            x = torch.arange(rows * 2.0).reshape(rows, 2)
            lengths = torch.tensor([1, rows - 1], dtype=torch.int32)
            assert torch.equal(f(x, lengths), plain_steps(x, lengths))
    stats = f.stats()
    assert stats["eager"] <= 1 and stats["hits"] >= 4, stats


def test_the_body_of_an_unsupported_wide_trace_runs_once():
    log = []

    @tracehost.function(reduce_retracing=True, watch=False)
    def f(x, out):
        log.append(tuple(x.shape))
        out.add_(1)
        if isinstance(x.shape[0], torch.Tensor):  # only a wide trace has a number of the graph
            return out * x.numpy().sum()
        return out * x.sum()

    out, expected = torch.zeros(1), torch.zeros(1)
    for rows in (2, 3, 2, 3, 4, 4):
        x = torch.ones(rows)
        expected.add_(1)
        assert torch.equal(f(x, out), expected * rows) and torch.equal(out, expected)


RANKS = [(2, 2), (3, 3), (2, 5), (3,), (), (6,), (2, 2, 2), (2, 4)]


def of_a_count(x):
    return x * 2 if x.numel() > 3 else x


def of_a_dimension(x):
    return x * 2 if x.dim() > 1 and x.shape[1] > 3 else x


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")
@pytest.mark.parametrize("body", [of_a_count, of_a_dimension])
@pytest.mark.parametrize(
    "options",
    [{"reduce_retracing": True}, {"input_signature": [tracehost.TensorSpec(None)]}],
    ids=["reduced", "declared"],
)
@pytest.mark.parametrize("order", [1, -1])
def test_a_condition_on_a_size_that_a_call_does_not_have(body, options, order):
    f = tracehost.function(body, **options)
    for sizes in RANKS[::order] * 2:
        x = torch.ones(sizes)
        assert torch.equal(f(x), body(x))
