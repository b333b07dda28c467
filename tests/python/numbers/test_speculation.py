"""Where a body needs the value of a number, the graph checks it: one graph a value, and no effect of a failed check."""

import pytest
import torch
import tracehost
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

INPUTS = [torch.arange(4.0) * (-1) ** k + k % 5 for k in range(12)]


def unstaged(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def key(x):
    return {0: x, 1: x * 2, 2: x * 3}[int(x.abs().sum()) % 3]


def index(x):
    return x * [1.0, 2.0, 3.0][int(x.abs().sum()) % 3]


def equal(x):
    return x * 2 if torch.equal(x, x.abs()) else -x


def in_place_on_its_own(x):
    y = x + 0
    y.add_(1)
    return y if bool(y.sum() > 0) else -y


def two_places(x):
    a = 1 if x[0] > 1 else 2
    b = 10 if x.sum() > 6 else 20
    return x * (a + b)


def loop(x):
    n = 0
    while x.sum() < 40:
        x = x.abs() * 2 + 1
        n += 1
    return x, n


@pytest.mark.parametrize(
    ("body", "autograph", "traces"),
    [
        (unstaged, False, 2),
        (key, True, 3),
        (index, True, 3),
        (equal, False, 2),
        (in_place_on_its_own, False, 2),
        (two_places, False, 4),
        (loop, False, 5),
    ],
)
def test_one_graph_a_value(body, autograph, traces):
    f = tracehost.function(body, autograph=autograph)
    for _ in range(2):
        for x in INPUTS:
            expected, got = body(x.clone()), f(x.clone())
            assert str(expected) == str(got)
    assert f.tracing_count() <= traces
    stats = f.stats()
    assert stats["hits"] + stats["traces"] == stats["calls"] == 24 and stats["mismatches"] == 0


def test_a_call_whose_check_fails_leaves_no_effect():
    total = torch.zeros(2)

    def body(x):
        kept = x * 2 if x.sum() > 0 else x - 1
        total.add_(kept)
        x.mul_(0)
        return kept + torch.rand(2)

    f = tracehost.function(body, autograph=False)
    with assert_traces(f, 2):
        for sign in (1, -1, 1, 1, -1, -1, 1):
            torch.manual_seed(3)
            x, before = torch.ones(2) * sign, total.clone()
            got = f(x)
            assert torch.equal(x, torch.zeros(2) * sign)
            torch.manual_seed(3)
            kept = torch.ones(2) * (2 if sign > 0 else -2)
            assert torch.equal(got, kept + torch.rand(2)) and torch.equal(total, before + kept)


def test_draws_before_a_check_are_taken_back():
    def body(x):
        x = x + torch.rand(2)
        if torch.rand(()) < 0.5:
            x = x * torch.rand(2)
        return x if x.sum() > 1 else -x - torch.rand(2)

    f = tracehost.function(body, autograph=False)
    for seed in range(40):
        torch.manual_seed(seed)
        got, after = f(torch.zeros(2)), torch.rand(1)
        torch.manual_seed(seed)
        assert torch.equal(got, body(torch.zeros(2))) and torch.equal(after, torch.rand(1))
    assert 2 < f.tracing_count() <= 4


def test_a_line_has_eight_values():
    f = tracehost.function(lambda x: x * list(range(100))[int(x[0])])
    with assert_traces(f, 8):
        for n in range(8):
            assert torch.equal(f(torch.tensor([float(n)])), torch.tensor([float(n * n)]))
        with pytest.warns(
            tracehost.TraceWarning, match="which already has 8 graphs, one for each value"
        ):
            assert torch.equal(f(torch.tensor([8.0])), torch.tensor([64.0]))
        assert torch.equal(f(torch.tensor([5.0])), torch.tensor([25.0]))


def test_what_is_told():
    f = tracehost.function(unstaged, autograph=False)
    f(torch.ones(2)), f(-torch.ones(2))
    line = f"test_speculation.py:{unstaged.__code__.co_firstlineno + 1}"
    assert (
        f.specializations()[1].signature.endswith(f" with False at {line}")
        or f"with False at {line}" in f.report()
    )
    cause = tracehost.events()[-1].causes[0]
    assert cause.endswith("was True, is False")


def test_validation_of_a_hit_leaves_a_failed_check_alone():
    f = tracehost.function(unstaged, autograph=False, validate=1)
    for sign in (1, -1, 1, -1, 1):
        x = torch.ones(2) * sign
        assert torch.equal(f(x), unstaged(x))
    assert f.stats()["mismatches"] == 0


def test_an_exception_of_the_body_after_a_check():
    def body(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return x * 2

    f = tracehost.function(body, autograph=False)
    with assert_traces(f, 1):
        for _ in range(2):
            assert torch.equal(f(torch.ones(2)), torch.ones(2) * 2)
            with pytest.raises(ValueError, match="negative"):
                f(-torch.ones(2))


def test_where_there_is_no_value_it_is_rejected():
    f = tracehost.function(unstaged, autograph=False)
    with pytest.raises(tracehost.ValueReadError, match=r"test_speculation\.py"):
        f.get_concrete_function(tracehost.TensorSpec([2]))


def mixture(x, expert):
    y = torch.zeros_like(x)
    m = x[:, 0] > 0
    if m.any():
        y[m] = expert(x[m])
    return y


def test_a_branch_that_needs_data_is_checked():
    expert = nn.Linear(4, 4)
    f = tracehost.function(lambda x: mixture(x, expert))
    for k in range(6):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(k))
        x = -x.abs() if k % 3 == 2 else x
        assert torch.equal(f(x), mixture(x, expert))
    assert f.tracing_count() <= 2


def test_masks_of_a_transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    other = torch.zeros(5, 5)
    f = tracehost.function(lambda x, m: encoder(x, mask=m))
    with assert_traces(f, 2):
        for k, m in enumerate((mask, other, mask, other)):
            x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(k))
            assert torch.equal(f(x, m), encoder(x, mask=m))


def test_packed_sequences():
    lstm = nn.LSTM(4, 5, batch_first=True)

    def body(x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        return nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)[0]

    f = tracehost.function(body)
    for k, lengths in enumerate(([6, 3, 2], [6, 5, 1], [6, 3, 2])):
        x = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(k))
        assert torch.equal(f(x, torch.tensor(lengths)), body(x, torch.tensor(lengths)))


def of_its_own(x):
    y = torch.zeros(3)
    if x.sum() > 0:
        y[1:].add_(1)
    return y


def of_a_list(x):
    rows = list(torch.zeros(2, 3))
    if x.sum() > 0:
        rows[1].add_(1)
    return rows[1]


@pytest.mark.parametrize("write", [of_its_own, of_a_list])
def test_a_staged_branch_that_writes_what_the_body_made_has_no_effect(write):
    def body(x):
        y = write(x)
        return {True: y * 2, False: y - 1}[(y.sum() > 1).item()]

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for sign in (1, -1, 1, -1):
            x = torch.ones(3) * sign
            assert torch.equal(f(x), body(x))


def test_a_staged_branch_that_writes_an_input():
    def body(x, y):
        z = y.view(3)
        if x.sum() > 0:
            z[1:].add_(1)
        return {True: z * 2, False: z - 1}[(z.sum() > 1).item()]

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for sign, start in ((1, 0), (-1, 0), (1, 0), (-1, 2), (1, -2), (-1, 2)):
            got, expected = torch.full((3,), float(start)), torch.full((3,), float(start))
            x = torch.ones(3) * sign
            assert torch.equal(f(x, got), body(x, expected)) and torch.equal(got, expected)
