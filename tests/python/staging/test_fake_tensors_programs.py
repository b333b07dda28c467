"""Blocks that do not run at the trace: what their code sees of a tensor, and what their ops give, is as in eager."""

import pytest
import torch
import tracehost
from torch import nn
from torch.nn import functional as F
from tracehost.testing import assert_traces

torch.manual_seed(0)
W = torch.randn(4, 4)
CONV, BN = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(2)
LSTM, EMBEDDING, NORM = nn.LSTM(4, 5), nn.Embedding(7, 4), nn.LayerNorm(4)
FROZEN = nn.Linear(4, 4).requires_grad_(False)
IMAGE = torch.randn(2, 2, 6, 6)


@torch.library.custom_op("tracehost_fake_tensors::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


def expect(condition):
    if not condition:
        raise AssertionError("not as in eager")


def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ W
        expect(y.dtype == torch.bfloat16)
        return y.float()


def metadata(x):
    y = (x @ W).t()
    expect(type(y) is torch.Tensor and y.device == x.device and y.layout == torch.strided)
    expect(y.type() == "torch.FloatTensor" and not y.is_cuda and not y.is_meta and not y.is_sparse)
    expect(y.stride() == (1, 4) and not y.is_contiguous())
    expect(len(y) == 4 and y.numel() == 16 and y.nbytes == 64 and y.element_size() == 4)
    expect(torch.is_tensor(y) and isinstance(y, torch.Tensor) and not isinstance(y, nn.Parameter))
    return y + y.new_ones(4) + torch.zeros_like(y)


def views(x):
    y = x.clone()
    row = y[1]
    expect(row.stride() == (1,) and row.shape == (4,))
    row.add_(1)
    y[:, 2].fill_(5.0)
    return y.unfold(0, 2, 1).sum(-1)


def channels_last(x):
    y = CONV(IMAGE.to(memory_format=torch.channels_last))
    expect(y.is_contiguous(memory_format=torch.channels_last))
    return y.sum() + x


def literals(x):
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return x * scale + torch.tensor(2)


def leaf(x):
    w = torch.ones(4, requires_grad=True)
    with torch.enable_grad():
        expect(w.is_leaf and w.requires_grad and (w * 2).requires_grad)
    with torch.no_grad():
        expect(not (w * 2).requires_grad)
    return x * w.detach()


def promoted(x):
    expect((x.to(torch.int32) * 2.5).dtype == torch.float32 and (x.long() + 1).dtype == torch.int64)
    expect((x > 0).dtype == torch.bool and (x.double() * x).dtype == torch.float64)
    return x.half().float()


def pools(x):
    y = F.max_pool1d(x[None], 2) + F.adaptive_avg_pool1d(x[None], 2)
    return y.repeat(1, 1, 2)[0] + F.one_hot(torch.arange(4), 4)


BODIES = {
    "autocast": autocast,
    "metadata": metadata,
    "views": views,
    "channels_last": channels_last,
    "literals": literals,
    "leaf": leaf,
    "promoted": promoted,
    "pools": pools,
    "linear": lambda x: F.relu(FROZEN(x)),
    "conv_transposed": lambda x: x + F.conv_transpose2d(IMAGE, CONV.weight.detach().transpose(0, 1)[:2]).sum(),
    "batch_norm": lambda x: x + BN(IMAGE).sum(),
    "lstm": lambda x: x + LSTM(x[None])[0].sum(),
    "embedding": lambda x: x + EMBEDDING(torch.arange(4)),
    "layer_norm": NORM,
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    "interpolated": lambda x: F.interpolate(x[None, None], scale_factor=2)[0, 0, :4, :4],
    "padded": lambda x: F.pad(x, (1, 1), mode="constant", value=2.0)[:, :4],
    "reflected": lambda x: F.pad(x[None], (1, 1), mode="reflect")[0, :, :4],
    "sorted": lambda x: x.sort(0).values + x.topk(4).values + x.cumsum(1),
    "statistics": lambda x: x + x.var() + x.std(0) + x.prod(1, keepdim=True) + x.median() + x.amax(),
    "chosen": lambda x: torch.where(x > 0, x, 0.0) + x.clamp(-1, 1) + x.masked_fill(x > 1, 2.0),
    "gathered": lambda x: x.gather(1, torch.zeros(4, 4, dtype=torch.int64)) + x[torch.tensor([3, 2, 1, 0])],
    "scattered": lambda x: x.scatter_add(0, torch.zeros(4, 4, dtype=torch.int64), x).index_add(0, torch.tensor([1]), x[:1]),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, W) + torch.tensordot(x, W, 1),
    "solved": lambda x: torch.linalg.solve(W + 5 * torch.eye(4), x) + torch.linalg.norm(x),
    "fourier": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=4),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x).conj() * 2)[..., 0],
    "made": lambda x: x + torch.arange(4) + torch.linspace(0, 1, 4) + torch.eye(4) + torch.full((4,), 2.0),
    "flipped": lambda x: x.flip(0).roll(1, 1).rot90().tril().contiguous(),
    "cat": lambda x: torch.cat([x, x.chunk(2)[0], *x.split(2)])[:4] + torch.stack([x, x]).mean(0),
    "sparse": lambda x: torch.eye(4).to_sparse().mm(x),
    "custom": doubled,
    "loss": lambda x: x + F.cross_entropy(x, torch.arange(4)) + F.huber_loss(x, W) + F.mse_loss(x, W),
}  # fmt: skip


def in_branch(body):
    def staged(x, flag):
        if flag.sum() > 0:
            y = x.sum()
        else:
            y = body(x).sum()
        return y

    return staged


def in_loop(body):
    def staged(x, count):
        total = torch.zeros(())
        for _ in range(count):
            total = total + body(x).sum()
        return total

    return staged


X = torch.randn(4, 4)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("first", [0, 1])
def test_a_branch(name, first):
    plain = in_branch(BODIES[name])
    flags = [torch.tensor([1.0]), torch.tensor([-1.0])]
    flags = flags[first:] + flags[:first]
    with torch.no_grad():
        staged = tracehost.function(plain)
        for flag in flags:
            torch.testing.assert_close(staged(X, flag), plain(X, flag))
    assert staged.tracing_count() == 1


@pytest.mark.parametrize("name", BODIES)
def test_a_loop(name):
    plain = in_loop(BODIES[name])
    with torch.no_grad():
        staged = tracehost.function(plain)
        for count in (0, 2, 1):
            torch.testing.assert_close(staged(X, torch.tensor(count)), plain(X, count))
    assert staged.tracing_count() == 1


@pytest.mark.parametrize("name", BODIES)
def test_a_trace_from_specs(name):
    body = BODIES[name]
    with torch.no_grad():
        staged = tracehost.function(lambda x: body(x) * 1)
        made = staged.get_concrete_function(tracehost.TensorSpec([4, 4]))
        torch.testing.assert_close(made(X), body(X) * 1)
        staged(X)
    assert staged.tracing_count() == 1


@pytest.mark.parametrize(
    "name", ["linear", "layer_norm", "attention", "views", "lstm", "conv_transposed", "statistics"]
)
def test_gradients_through_a_branch(name):
    plain = in_branch(BODIES[name])
    staged = tracehost.function(plain)
    with assert_traces(staged, 1):
        for flag in (torch.tensor([1.0]), torch.tensor([-1.0])):
            x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
            plain(x, flag).backward()
            staged(y, flag).backward()
            torch.testing.assert_close(y.grad, x.grad)


REFUSED = {
    "nonzero": lambda x: x.nonzero().float(),
    "a mask": lambda x: x[x > 0],
    "unique": lambda x: x.unique(),
    "istft": lambda x: torch.istft(torch.view_as_complex(x.reshape(4, 2, 2)), 6, window=torch.ones(6)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_data_is_rejected_with_its_line(name):
    staged = tracehost.function(in_branch(REFUSED[name]), value_reads="error")
    with pytest.raises(tracehost.StagingError, match=r"test_fake_tensors_programs.py:\d+"):
        staged(X, torch.tensor([1.0]))
