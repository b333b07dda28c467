"""Sizes of tensors that a body reaches by a path: under reduce_retracing they become dynamic, as those of arguments do."""

from types import SimpleNamespace

import pytest
import torch
import tracehost
from core_support import assert_same, place
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(1.0, 4.0)


def rows(n):
    return torch.arange(1.0, 3 * n + 1).view(n, 3)


def holder(n=2, **more):
    return SimpleNamespace(keys=rows(n), values=rows(n) * 2, all=[rows(n), rows(n + 1)], **more)


def grow(state, by=1):
    state.keys = torch.cat([state.keys, rows(by)])
    state.values = torch.cat([state.values, rows(by) + 1])
    state.all = [torch.cat([t, rows(by)]) for t in state.all]


def attend(s, x):
    return torch.softmax(s.keys @ x, 0) @ s.values


def by_length(s, x):
    return s.keys * 2 + x if s.keys.shape[0] > 4 else s.keys - x  # here


def of_equal_lengths(s, x):
    return (s.keys + s.values) * x if s.keys.shape == s.values.shape else x


def arithmetic(s, x):
    n = s.keys.shape[0]
    return torch.arange(n) + n * 2, torch.zeros(n + 1, 3) + x, n


def masked(s, x):
    n = len(s.keys)
    return torch.ones(n, n).tril() @ s.keys * x


def in_a_list(s, x):
    return torch.cat(s.all) * x


def tail(s, x):
    return s.keys[-2:] + x, s.keys[s.keys.shape[0] // 2 :]


def reshaped(s, x):
    return s.keys.reshape(-1), s.keys.view(s.keys.size(0), 1, 3) * x


def twice(s, x):
    return s.keys + s.keys.flip(0) + x


BODIES = [attend, by_length, of_equal_lengths, arithmetic, masked, in_a_list, tail, reshaped, twice]


@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.__name__)
def test_a_growing_context(body):
    state = holder()
    f = tracehost.function(lambda x: body(state, x), reduce_retracing=True)
    # A trace with the sizes as they were, one with any; `by_length` has two sides of a condition.
    with assert_traces(f, (3 if body is by_length else 2)):
        for _ in range(12):
            assert_same(f(X), body(state, X))
            grow(state)


@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.__name__)
def test_sizes_in_any_order(body):
    state = holder()
    f = tracehost.function(lambda x: body(state, x), reduce_retracing=True)
    for n in (5, 3, 1, 8, 2, 1, 0, 4, 7):
        state.keys, state.values, state.all = rows(n), rows(n) * 2, [rows(n), rows(2)]
        try:
            expected = body(state, X)
        except (RuntimeError, IndexError):
            with pytest.raises((RuntimeError, IndexError)):
                f(X)
            continue
        assert_same(f(X), expected)
    assert f.tracing_count() <= 6


def test_without_reduce_retracing_each_size_is_traced():
    state = holder()
    f = tracehost.function(lambda x: attend(state, x), reduce_retracing=False)
    with assert_traces(f, 4):
        for _ in range(4):
            f(X)
            grow(state)


def test_sizes_of_arguments_and_captures_together():
    state = holder()

    @tracehost.function(reduce_retracing=True)
    def f(x):
        return x @ state.keys.T, torch.cat([x, state.keys])

    with assert_traces(f, 2):
        for n in (2, 3, 5, 4, 6):
            x = rows(n + 1)
            assert_same(f(x), (x @ state.keys.T, torch.cat([x, state.keys])))
            grow(state)


def test_equal_sizes_that_an_op_needs_become_a_condition():
    state = holder()
    f = tracehost.function(lambda x: (state.keys + state.values) * x, reduce_retracing=True)
    for _ in range(3):
        f(X)
        grow(state)
    state.values = rows(1)
    assert_same(f(X), (state.keys + state.values) * X)
    state.values = rows(3)
    with pytest.raises(RuntimeError, match="must match the size"):
        f(X)


def test_a_cache_that_the_body_grows():
    class Cache:
        def __init__(self):
            self.keys = None

        def update(self, k):
            self.keys = k if self.keys is None else torch.cat([self.keys, k])
            return self.keys

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x, cache):
            keys = cache.update(self.k(x))
            mask = torch.ones(len(x), len(keys)).tril(len(keys) - len(x)).bool()
            return (self.q(x) @ keys.T).masked_fill(~mask, -1e9).softmax(-1) @ keys

    model = Decoder().eval()
    f = tracehost.function(model.forward, reduce_retracing=True)
    with assert_traces(f, 3):
        with torch.no_grad():
            mine, eager = Cache(), Cache()
            for n in (4, 1, 1, 1, 1, 1, 1, 1, 1):
                assert_same(f(rows(n), mine), model(rows(n), eager))
            assert_same(mine.keys, eager.keys)


def test_contiguity_where_two_sizes_may_differ():
    def body(x, y):
        z = (x + y).transpose(0, 1)
        return z.contiguous() * 2, z.is_contiguous()

    f = tracehost.function(body, reduce_retracing=True)
    for rows_of_x, rows_of_y in ((3, 3), (5, 5), (6, 6), (7, 7), (1, 1), (1, 7), (7, 1), (2, 2)):
        x, y = torch.randn(rows_of_x, 4), torch.randn(rows_of_y, 4)
        assert_same(f(x, y), body(x, y))
        if rows_of_y == 7 and rows_of_x == 7:
            assert f.tracing_count() == 2


CHOICES = {
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "where of numbers": lambda x: torch.where(x > 0, x, 0.0),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, 2, dim=-1),
    "one_hot": lambda x: torch.nn.functional.one_hot(x.long().clamp(0, 3), 4),
}


@pytest.mark.parametrize("name", CHOICES)
def test_sizes_behind_an_op_that_could_depend_on_values(name):
    def body(x):
        y = CHOICES[name](x)
        return (
            y.transpose(0, -1).contiguous() * 2
            if y.shape[0] >= y.shape[1] or y.is_contiguous()
            else y
        )

    f = tracehost.function(body, reduce_retracing=True)
    for n in (3, 4, 5, 6, 7):
        assert_same(f(torch.ones(n, 2)), body(torch.ones(n, 2)))
    assert f.tracing_count() <= 3
    traces = [event for event in tracehost.events() if event.kind == "trace"]
    notes = [note for event in traces[-f.tracing_count() :] for note in event.notes]
    assert not any("sizes after it are not checked" in note for note in notes), notes


def test_gradients_of_captures_of_any_size():
    state = SimpleNamespace(w=rows(2).requires_grad_())
    f = tracehost.function(lambda x: (state.w * x).pow(2).sum(), reduce_retracing=True)
    with assert_traces(f, 2):
        for n in (2, 3, 4, 5):
            state.w = rows(n).requires_grad_()
            f(X).backward()
            assert_same(state.w.grad, 2 * state.w.detach() * X * X)


def test_the_size_itself_keeps_one_trace_a_size():
    state = holder()
    f = tracehost.function(
        lambda x: [x * i for i in range(len(state.keys))], reduce_retracing=True, autograph=False
    )
    with assert_traces(f, 4):
        for _ in range(4):
            assert_same(f(X), [X * i for i in range(len(state.keys))])
            grow(state)


def test_a_concrete_function_and_an_archive(tmp_path):
    state = holder()
    f = tracehost.function(lambda x: by_length(state, x), reduce_retracing=True)
    for _ in range(2):
        f(X)
        grow(state)
    concrete = f.get_concrete_function(X)
    assert_same(concrete(X), by_length(state, X))
    path = tmp_path / "grown.pt"
    tracehost.save(path, {"f": concrete})
    assert_same(tracehost.load(path)["f"](X), by_length(state, X))
    grow(state)
    with pytest.raises(tracehost.CaptureError, match=r"for sizes where 4 >= state.keys.shape\[0\]"):
        concrete(X)


def test_what_explain_and_the_text_of_a_condition_name():
    state = holder()
    f = tracehost.function(lambda x: by_length(state, x), reduce_retracing=True)
    for _ in range(8):
        f(X)
        grow(state)
    causes = [event.causes for event in tracehost.events() if event.kind == "trace"][-1]
    assert causes == (
        f"sizes compare differently at {place(by_length)}: was 4 >= state.keys.shape[0], is 4 < state.keys.shape[0]",
    )
