"""An op that a number gives a size: what the body asks of the result's size is the call's, also in loops and ifs."""

import pytest
import torch
import torch.nn.functional as F
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(24.0).reshape(2, 12)
ROW = torch.ones(2, 1)
OPS = {
    "zeros": lambda n: torch.zeros(2, n),
    "zeros, a list": lambda n: torch.zeros([2, n]),
    "zeros, by name": lambda n: torch.zeros(size=(2, n)),
    "ones": lambda n: torch.ones(2, n),
    "empty": lambda n: torch.empty(2, n),
    "full": lambda n: torch.full((2, n), 1.0),
    "rand": lambda n: torch.rand(2, n),
    "randn": lambda n: torch.randn(2, n),
    "randint": lambda n: torch.randint(0, 5, (2, n)),
    "normal": lambda n: torch.normal(0.0, 1.0, (2, n)),
    "new_zeros": lambda n: X.new_zeros(2, n),
    "new_ones": lambda n: X.new_ones((2, n)),
    "new_full": lambda n: X.new_full((2, n), 3.0),
    "new_empty": lambda n: X.new_empty(2, n),
    "empty_strided": lambda n: torch.empty_strided((2, n), (n, 1)),
    "as_strided": lambda n: X.as_strided((2, n), (1, 1)),
    "expand": lambda n: ROW.expand(2, n),
    "expand of -1": lambda n: ROW.expand(-1, n),
    "zeros_like": lambda n: torch.zeros_like(ROW.expand(2, n)),
    "broadcast_to": lambda n: torch.broadcast_to(ROW, (2, n)),
    "repeat": lambda n: X.repeat(1, n),
    "tile": lambda n: torch.tile(X, (n, 1)),
    "repeat_interleave": lambda n: X.repeat_interleave(n, 1),
    "view": lambda n: torch.zeros(2 * n).view(2, n),
    "reshape": lambda n: torch.zeros(2 * n).reshape(n, 2),
    "unflatten": lambda n: torch.zeros(n * 2).unflatten(0, (2, n)),
    "flatten": lambda n: torch.zeros(2, n).flatten(),
    "resize": lambda n: torch.zeros(2).resize_(n),
    "narrow": lambda n: X.narrow(1, 0, n),
    "to n": lambda n: X[:, :n],
    "from n": lambda n: X[:, n:],
    "each nth": lambda n: X[:, ::n],
    "arange": lambda n: torch.arange(n),
    "arange of a step": lambda n: torch.arange(0, 20, n),
    "linspace": lambda n: torch.linspace(0, 1, n),
    "logspace": lambda n: torch.logspace(0, 1, n),
    "eye": lambda n: torch.eye(2, n),
    "tril_indices": lambda n: torch.tril_indices(n, n),
    "triu_indices": lambda n: torch.triu_indices(n, 3),
    "randperm": lambda n: torch.randperm(n),
    "vander": lambda n: torch.vander(torch.arange(3.0), n),
    "windows": lambda n: torch.cat([torch.bartlett_window(n), torch.hann_window(n), torch.kaiser_window(n)]),
    "pad": lambda n: F.pad(X, (0, n)),
    "pad all": lambda n: F.pad(X, (n, n, 1, n)),
    "topk": lambda n: X.topk(n).values,
    "diagonal": lambda n: X.diagonal(n),
    "one_hot": lambda n: F.one_hot(torch.tensor([0, 1]), n),
    "bincount": lambda n: torch.bincount(torch.tensor([0, 1]), minlength=n),
    "histc": lambda n: torch.histc(X, n),
    "avg_pool": lambda n: F.avg_pool1d(X[None], n),
    "max_pool": lambda n: F.max_pool1d(X[None], n),
    "adaptive_avg_pool": lambda n: F.adaptive_avg_pool1d(X[None], n),
    "interpolate": lambda n: F.interpolate(X[None], size=n),
    "interpolate two": lambda n: F.interpolate(X[None, None], size=(3, n)),
    "unfold": lambda n: X.unfold(1, n, 1),
    "unfold by steps": lambda n: X.unfold(1, 2, n),
    "F.unfold": lambda n: F.unfold(X[None, None], (1, n)),
    "a stride": lambda n: F.conv1d(X[None], torch.ones(1, 2, 2), stride=n),
    "a padding": lambda n: F.conv1d(X[None], torch.ones(1, 2, 2), padding=n),
    "a dilation": lambda n: F.conv1d(X[None], torch.ones(1, 2, 2), dilation=n),
    "fft": lambda n: torch.fft.fft(X, n),
    "fft2": lambda n: torch.fft.fft2(X, (2, n)),
    "rfft": lambda n: torch.fft.rfft(X, n),
    "fftfreq": lambda n: torch.fft.fftfreq(n),
    "cat": lambda n: torch.cat([torch.zeros(n), torch.zeros(2)]),
    "stack": lambda n: torch.stack([torch.zeros(n)] * 2),
    "block_diag": lambda n: torch.block_diag(*[torch.ones(n, 1)] * 2),
    "meshgrid": lambda n: torch.meshgrid(torch.arange(n), torch.arange(2), indexing="ij")[0],
    "combinations": lambda n: torch.combinations(torch.arange(n)),
    "in turn": lambda n: torch.zeros(2, n).new_zeros(n).repeat(2),
    "tensor_split": lambda n: X.tensor_split(n, 1)[0],
    "chunk": lambda n: X.chunk(n, 1)[0],
    "split": lambda n: X.split(n, 1)[0],
}  # fmt: skip
# How many parts there are follows from the number; or the parser makes a list of one int. Each number has its graph.
CHECKED = {
    *("chunk", "split", "tensor_split"),
    *("avg_pool", "max_pool", "adaptive_avg_pool", "a stride", "a padding", "a dilation"),
}


def sizes(t):
    rows, averages, steps = 0, t.numel() / len(t) if len(t) else 0, torch.zeros(1)
    for _ in range(2):
        rows = rows + t.shape[0]
    if steps.sum() < 1:
        steps = steps + t.numel()
    while steps.sum() < 200:
        steps = steps + t.size(-1) + 1
    larger = steps * 2 if t.shape[-1] > 4 else steps
    return tuple(t.shape), t.numel(), t.nelement(), [*t.size()], rows, averages, steps, larger


def same(ours, eagers):
    assert repr(ours) == repr(eagers)


@pytest.mark.parametrize("name", OPS)
def test_of_a_number_that_is_read(name):
    f = tracehost.function(lambda t: sizes(OPS[name](int(t))))
    with assert_traces(f, (4 if name in CHECKED else 1)):
        for n in (3, 5, 3, 6, 2):
            same(f(torch.tensor(n)), sizes(OPS[name](n)))


@pytest.mark.parametrize("name", OPS)
def test_of_a_counter(name):
    class Counter:
        n = 1

    counter = Counter()

    @tracehost.function
    def f():
        counter.n += 1
        return sizes(OPS[name](counter.n))

    for n in range(2, 8):
        same(f(), sizes(OPS[name](n)))
