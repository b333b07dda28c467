"""Chains of ops with random numbers, called far above, below and at these numbers: sizes of results are eager's.

A body asks how the size of its result compares with other sizes, and what it is. A graph that takes a size of a result
for another size would answer as at the trace.
"""

import re

import pytest
import torch
import torch.nn.functional as F
import tracehost
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep.sameness import difference
from tracehost import TensorSpec
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = st.integers(1, 5)
NUMBER = st.one_of(SMALL, st.integers(6, 40), st.sampled_from((500, 1000, 1006, 1024, 2000)))
BOUND = st.one_of(st.none(), NUMBER, NUMBER.map(lambda n: -n), st.just(0))


def fixed(name, *values):
    return st.tuples(st.just(name), *values)


# Ops on [2, 2, n], by what they are called with.
OPS = {
    "slice": lambda x, a, b, c: x[..., a:b:c],
    "pad": lambda x, a, b: F.pad(x, (a, b)),
    "replicate": lambda x, a, b: F.pad(x, (a, b), mode="replicate"),
    "max_pool": lambda x, k, s, p, d, ceil: F.max_pool1d(x, k, s, min(p, k // 2), d, ceil),
    "avg_pool": lambda x, k, s, p, ceil: F.avg_pool1d(x, k, s, min(p, k // 2), ceil),
    "conv": lambda x, k, s, p, d: F.conv1d(x, torch.ones(2, 2, k), None, s, p, d),
    "transposed": lambda x, k, s, p: F.conv_transpose1d(x, torch.ones(2, 2, k), None, s, p),
    "first_split": lambda x, k: x.split(k, -1)[0],
    "last_split": lambda x, k: x.split(k, -1)[-1],
    "chunk": lambda x: x.chunk(2, -1)[0],
    "tensor_split": lambda x, k: x.tensor_split(k, -1)[-1],
    "unfold": lambda x, k, s: x.unfold(-1, k, s)[..., 0],
    "windows": lambda x, k, s: x.unfold(-1, k, s).flatten(2),
    "scale": lambda x, f: F.interpolate(x, scale_factor=f),
    "strided": lambda x, k: x[..., ::k],
    "cat": lambda x, k: torch.cat([x, x[..., :k]], -1),
    "interleave": lambda x, k: x.repeat_interleave(k, -1),
    "repeat": lambda x, k: x.repeat(1, 1, k),
    "diff": lambda x, k: x.diff(k),
    "fold": lambda x: x.reshape(2, -1, 4).transpose(1, 2)[:, :2],
    "rfft": lambda x: torch.fft.rfft(x).real,
    "narrow": lambda x, k: x.narrow(-1, 0, max(x.shape[-1] - k, 0)),
    "plus": lambda x, k: x + x[..., :k].sum(-1, keepdim=True),
}
CALLS = st.one_of(
    fixed("slice", BOUND, BOUND, SMALL),
    fixed("pad", st.integers(-5, 1100), st.integers(-5, 5)),
    fixed("replicate", SMALL, NUMBER),
    fixed("max_pool", SMALL, SMALL, SMALL, SMALL, st.booleans()),
    fixed("avg_pool", SMALL, SMALL, SMALL, st.booleans()),
    fixed("conv", SMALL, SMALL, SMALL, SMALL),
    fixed("transposed", SMALL, SMALL, st.integers(0, 2)),
    fixed("first_split", NUMBER),
    fixed("last_split", NUMBER),
    fixed("chunk"),
    fixed("tensor_split", SMALL),
    fixed("unfold", NUMBER, SMALL),
    fixed("windows", SMALL, SMALL),
    fixed("scale", st.sampled_from((0.25, 0.5, 1.5, 2.0, 3.0))),
    fixed("strided", NUMBER),
    fixed("cat", NUMBER),
    fixed("interleave", SMALL),
    fixed("repeat", SMALL),
    fixed("diff", st.integers(1, 3)),
    fixed("fold"),
    fixed("rfft"),
    fixed("narrow", NUMBER),
    fixed("plus", NUMBER),
)


def chain(calls, bound):
    def body(x):
        y = x
        for name, *values in calls:
            y = OPS[name](y, *values)
        n, own = y.shape[-1], x.shape[-1]
        flags = 0
        if n < own:
            flags += 1
        if n == own:
            flags += 2
        if n > bound:
            flags += 4
        if n % 2 == 0:
            flags += 8
        return y * 2, flags, n, y.numel()

    return body


def sizes_around(calls, bound):
    numbers = [abs(int(v)) for _, *values in calls for v in values if v is not None] + [bound]
    around = {n + d for n in numbers for d in (-1, 0, 1)}
    return sorted({0, 1, 2, 2500, 5000} | {n for n in around if n >= 0})


def outcome(function, x):
    try:
        return function(x)
    except tracehost.Error:
        raise
    except Exception:
        return "an exception"


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(CALLS, min_size=1, max_size=3), NUMBER)
def test_sizes_of_results_are_eagers_at_each_size(calls, bound):
    body = chain(calls, bound)
    f = tracehost.function(body, reduce_retracing=True, autograph=False)
    for n in (37, 44, *sizes_around(calls, bound)):
        x = torch.arange(4.0 * n).reshape(2, 2, n)
        found = difference(outcome(body, x), outcome(f, x))
        assert found is None, (calls, bound, n, found)


def window(tokens):
    recent = tokens[-1024:]
    if recent.shape[0] < tokens.shape[0]:
        return recent.float() * 0 - 1
    return recent.float()


def test_a_window_is_not_the_whole_above_its_size():
    f = tracehost.function(window, reduce_retracing=True)
    with assert_traces(f, 3):
        for n in (10, 12, 2000, 1023, 1024, 1025, 10):
            x = torch.arange(n)
            assert torch.equal(f(x), window(x)), n
    condition = "min(tokens.shape[0], 1024) >= tokens.shape[0]"
    assert condition in str([event.causes for event in tracehost.events(f)])


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x.split(2000),
        lambda x: [part * 2 for part in x.split(2000)],
        lambda x: x.flatten()[:3000].unbind() if x.shape[0] < 3 else x * 2,
        lambda x: x[: 2000 + 1][-2001:].split(2000),
        lambda x: x.chunk(1)[0],
    ],
)
def test_a_number_of_parts_is_checked(body):
    f = tracehost.function(body, reduce_retracing=True)
    for n in (10, 12, 1999, 2000, 2001, 4001, 10, 2, 1):
        x = torch.arange(float(n))
        assert difference(body(x), f(x)) is None, n


def test_a_squeezed_dimension_is_of_size_1_or_is_not():
    def body(x):
        y = F.avg_pool1d(x, 4)
        z = y.squeeze()
        return z, z.dim()

    f = tracehost.function(body, reduce_retracing=True)
    for n in (40, 44, 3000, 5, 7, 4, 8, 40):
        x = torch.rand(1, 1, n)
        assert difference(body(x), f(x)) is None, n


@pytest.mark.parametrize("mode", ["trace", "error"])
def test_a_size_that_no_rule_knows(mode):
    """By a number that the graph checks, or by a specialized dimension."""

    def body(x):
        y = torch.combinations(x)
        if y.shape[0] > 100:
            return y * 2
        return y * 3

    f = tracehost.function(body, reduce_retracing=True, value_reads=mode)
    for n in (5, 6, 7, 40, 14, 15, 16):
        x = torch.arange(float(n))
        assert torch.equal(f(x), body(x)), n


def test_a_declared_size_that_no_rule_knows():
    def body(x):
        y = torch.combinations(x)
        return y * 2 if y.shape[0] > 100 else y * 3

    f = tracehost.function(body, input_signature=[TensorSpec([None])])
    for n in (5, 6, 40, 14, 15, 16):
        x = torch.arange(float(n))
        assert torch.equal(f(x), body(x)), n


def test_broadcast_sizes_are_conditions():
    def body(x, y):
        z = x + y
        return z * (2 if z.shape[0] > 6 else 3)

    f = tracehost.function(body, reduce_retracing=True)
    for a, b in ((3, 3), (4, 4), (9, 9), (1, 9), (9, 1), (1, 3), (1, 1), (2000, 2000), (1, 2000)):
        x, y = torch.rand(a), torch.rand(b)
        assert torch.equal(f(x, y), body(x, y)), (a, b)
    text = str([event.causes for event in tracehost.events(f)])
    assert re.search(r"x\.shape\[0\] == y\.shape\[0\]", text)
