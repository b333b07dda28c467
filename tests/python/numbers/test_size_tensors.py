"""A 0-dim int tensor that an op takes as a size is a traced number, as int(k) is: one trace for all values."""

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

V = torch.arange(8.0)
X = torch.arange(24.0).reshape(4, 6)
IMAGE = torch.arange(16.0).reshape(1, 1, 4, 4)


def stored(k):
    y = V.clone()
    y[:k] = 0
    return y


OPS = {
    "topk": lambda k: V.topk(k).values,
    "kthvalue": lambda k: V.kthvalue(k).values,
    "slice": lambda k: V[:k],
    "two slices": lambda k: X[k:, :k],
    "a negative slice": lambda k: V[-k:],
    "a step": lambda k: V[::k],
    "a stored slice": stored,
    "select": lambda k: X.select(0, k - 1),
    "index": lambda k: X[k - 1],
    "narrow": lambda k: V.narrow(0, 0, k),
    "narrow at": lambda k: V.narrow(0, k, 2),
    "zeros": lambda k: torch.zeros(k, 2),
    "zeros of one size": lambda k: torch.zeros(k),
    "ones of a tuple": lambda k: torch.ones((k, k)),
    "full": lambda k: torch.full((k,), 1.5),
    "eye": lambda k: torch.eye(k),
    "new_zeros": lambda k: V.new_zeros(k),
    "arange": lambda k: torch.arange(k),
    "arange from": lambda k: torch.arange(k, 8),
    "linspace": lambda k: torch.linspace(0, 1, k),
    "hann_window": lambda k: torch.hann_window(k),
    "pad": lambda k: F.pad(V, (k, 0)),
    "interpolate": lambda k: F.interpolate(IMAGE, size=(k, k)),
    "one_hot": lambda k: F.one_hot(torch.tensor([0, 0]), k),
    "expand": lambda k: torch.ones(1, 3).expand(k, 3),
    "broadcast_to": lambda k: torch.broadcast_to(torch.ones(3), (k, 3)),
    "view": lambda k: torch.ones(20)[: k * 4].view(k, 4),
    "view of the rest": lambda k: torch.ones(12).view(-1, k),
    "reshape": lambda k: torch.ones(12).reshape(k, -1),
    "repeat": lambda k: V.repeat(k),
    "repeat of two": lambda k: V.repeat(k, 2),
    "tile": lambda k: V.tile((k,)),
    "roll": lambda k: V.roll(k),
    "tril": lambda k: X.tril(k),
    "diagonal": lambda k: X.diagonal(k),
    "unfold": lambda k: V.unfold(0, k, 1),
    "as_strided": lambda k: V.as_strided((k,), (1,)),
}

SIZES = {
    "zeros": lambda k: torch.zeros(k, 2).shape,
    "reshape": lambda k: torch.ones(12).reshape(k, -1).shape[1],
    "rand": lambda k: torch.rand(k).shape,
    "slice": lambda k: len(V[:k]),
    "topk": lambda k: V.topk(k).values.numel(),
    "expand": lambda k: tuple(torch.ones(1, 3).expand(k, 3).shape),
    "used": lambda k: torch.zeros(k, 2).shape[0] * V + torch.ones(k, k).shape[1],
    "interpolate": lambda k: F.interpolate(IMAGE, size=(k, k)).shape[-1],
}


def compared(body, conversion, autograph):
    f = tracehost.function(lambda k: body(conversion(k)), autograph=autograph)
    for n in (2, 3, 2, 4, 3, 1):
        expected, got = body(n), f(torch.tensor(n))
        assert type(got) is type(expected)
        if isinstance(expected, torch.Tensor):
            assert got.dtype == expected.dtype and torch.equal(got, expected)
        else:
            assert got == expected
    return f


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("op", OPS)
def test_one_trace_for_all_sizes(op, autograph):
    f = compared(OPS[op], lambda k: k, autograph)
    assert f.tracing_count() == 1 and f.stats()["eager"] == 0


@pytest.mark.parametrize("conversion", [lambda k: k, int, torch.Tensor.item])
@pytest.mark.parametrize("read", SIZES)
def test_the_sizes_that_follow_are_numbers_of_the_graph(read, conversion):
    f = compared(SIZES[read], conversion, True)
    assert f.tracing_count() == 1


@pytest.mark.parametrize("op", ["split", "chunk", "a list", "a key"])
def test_what_needs_the_value_is_checked(op):
    bodies = {
        "split": lambda k: V.split(k)[0],
        "chunk": lambda k: V.chunk(k)[0],
        "a list": lambda k: V * [1.0, 2.0, 3.0, 4.0, 5.0][k],
        "a key": lambda k: V * {1: 2.0, 2: 3.0, 3: 4.0, 4: 5.0}[int(k)],
    }
    f = compared(bodies[op], lambda k: k, False)
    assert f.tracing_count() == 4


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.tensor(2))

    def forward(self, x):
        return x.topk(self.k).values, x[: self.k], torch.zeros(self.k, 2)


def test_a_captured_size():
    m = Module()
    f = tracehost.function(m.forward, autograph=False)
    for n in (2, 3, 2, 4):
        m.k.fill_(n)
        for got, expected in zip(f(V), m.forward(V), strict=True):
            assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_other_dtypes(dtype):
    f = tracehost.function(lambda x, k: x[:k].sum())
    with assert_traces(f, 1):
        for n in (1, 3, 2):
            assert torch.equal(f(V, torch.tensor(n, dtype=dtype)), V[:n].sum())


def test_a_size_that_the_body_computes():
    f = tracehost.function(lambda x: x.topk((x > 3).sum()).values, autograph=False)
    with assert_traces(f, 1):
        for x in (V, V + 2, V * 2, V - 3):
            assert torch.equal(f(x), x.topk(int((x > 3).sum())).values)


def test_errors_are_eagers():
    f = tracehost.function(lambda x, k: x.topk(k).values, autograph=False)
    f(V, torch.tensor(2))
    with pytest.raises(RuntimeError, match="out of range"):
        f(V, torch.tensor(20))
    with pytest.raises(RuntimeError, match="out of range"):
        tracehost.function(lambda x, k: x.topk(k).values)(V, torch.tensor(20))


def test_an_item_of_many_elements_raises_as_eager_does():
    f = tracehost.function(lambda x: x.item())
    assert f(torch.ones(1)) == 1.0
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        f(torch.ones(2))
