"""torch.nn's layers take any batch and sequence, in one trace."""

import copy

import pytest
import torch
import torch.nn.functional as F
import tracehost
from shapes_support import backward, check_sizes, same
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings(
    "ignore::tracehost.RetraceWarning", "ignore:.*nested tensor"
)

BATCHES = [(3, 4), (6, 4), (5, 4), (9, 4)]
SEQUENCES = [(2, 3, 4), (5, 3, 4), (5, 6, 4), (7, 9, 4), (3, 8, 4), (11, 2, 4)]
CHANNELS = [(3, 4, 5), (6, 4, 5), (6, 4, 7), (9, 4, 8)]
IMAGES = [(2, 2, 16, 16), (5, 2, 16, 16), (3, 2, 20, 16), (4, 2, 24, 28), (4, 2, 18, 30)]


def attention(**options):
    return lambda m, x: m(x, x, x, **options)


def masked(m, x):
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    padding = torch.zeros(x.shape[0], x.shape[1], dtype=torch.bool)
    return m(x, x, x, attn_mask=mask, key_padding_mask=padding)


def causal(m, x):
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return m(x, x, x, attn_mask=mask, is_causal=True)


def classified(m, x):
    token = torch.zeros(1, 1, 4).expand(x.shape[0], -1, -1)
    y = torch.cat([token, x], 1)
    return m(y, y, y)[0][:, 0]


def encoder(dropout=0.1):
    return nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=dropout)


def plain(m, x):
    return m(x)


# name: module, shapes, traces (one for each set of sizes that vary), call
MODULES = {
    "linear": (lambda: nn.Linear(4, 3), SEQUENCES, 3, plain),
    "batch norm": (lambda: nn.BatchNorm1d(4), BATCHES, 2, plain),
    "batch norm of sequences": (lambda: nn.BatchNorm1d(4), CHANNELS, 3, plain),
    "batch norm 2d": (lambda: nn.BatchNorm2d(2), IMAGES, 4, plain),
    "group norm": (lambda: nn.GroupNorm(2, 4), CHANNELS, 3, plain),
    "instance norm": (lambda: nn.InstanceNorm1d(4), CHANNELS, 3, plain),
    "layer norm": (lambda: nn.LayerNorm(4), SEQUENCES, 3, plain),
    "lstm": (
        lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True),
        SEQUENCES,
        3,
        plain,
    ),
    "gru": (lambda: nn.GRU(4, 5), SEQUENCES, 3, plain),
    "lstm cell": (lambda: nn.LSTMCell(4, 5), BATCHES, 2, plain),
    "attention": (lambda: nn.MultiheadAttention(4, 2), SEQUENCES, 3, attention()),
    "attention, batch first": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        SEQUENCES,
        3,
        attention(need_weights=False),
    ),
    "attention, masked": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        SEQUENCES,
        3,
        masked,
    ),
    "attention, causal": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        SEQUENCES,
        3,
        causal,
    ),
    "attention with a class token": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        SEQUENCES,
        3,
        classified,
    ),
    "encoder layer": (encoder, SEQUENCES, 3, plain),
    "encoder": (lambda: nn.TransformerEncoder(encoder(), 2), SEQUENCES, 3, plain),
    "decoder layer": (
        lambda: nn.TransformerDecoderLayer(4, 2, 8, batch_first=True),
        SEQUENCES,
        3,
        lambda m, x: m(x, x),
    ),
    "convolution": (lambda: nn.Conv1d(4, 3, 3), CHANNELS, 3, plain),
    "convolution 2d": (lambda: nn.Conv2d(2, 3, 3, padding="same"), IMAGES, 4, plain),
    "transposed convolution": (lambda: nn.ConvTranspose2d(2, 3, 2, stride=2), IMAGES, 4, plain),
    "upsample": (lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), IMAGES, 4, plain),
    "unfold": (lambda: nn.Unfold(2), IMAGES, 4, plain),
    "dropout": (lambda: nn.Dropout(0.5), SEQUENCES, 3, plain),
    "positions": (
        lambda: nn.Embedding(16, 4),
        SEQUENCES,
        3,
        lambda m, x: x + m(torch.arange(x.shape[1])),
    ),
}


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_dynamic(name, training):
    make, shapes, traces, call = MODULES[name]
    torch.manual_seed(3)
    ours = make().train(training)
    theirs = copy.deepcopy(ours)
    f = tracehost.function(lambda x: call(ours, x), reduce_retracing=True)
    with assert_traces(f, traces):
        for shape in shapes:
            x = torch.randn(shape, requires_grad=True)
            twin = x.detach().clone().requires_grad_()
            torch.manual_seed(5)
            got = f(x)
            torch.manual_seed(5)
            wanted = call(theirs, twin)
            assert same(got, wanted), shape
            backward(got)
            backward(wanted)
            assert torch.equal(x.grad, twin.grad), shape
            for (key, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters()):
                assert torch.equal(a.grad, b.grad), (shape, key)
            for (key, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers()):
                assert torch.equal(a, b), (shape, key)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_fast_path_of_encoders_is_dynamic(layers):
    module = nn.TransformerEncoder(encoder(), layers).eval()

    def body(x):
        with torch.no_grad():
            return module(x)

    check_sizes(body, SEQUENCES, traces=3)


FUNCTIONS = {
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        [(2, 2, 3, 4), (5, 2, 3, 4), (5, 2, 6, 4), (4, 2, 7, 4)],
        3,
    ),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), IMAGES, 4),
    "bilinear": (
        lambda x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 1), mode="bilinear"),
        IMAGES,
        4,
    ),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=0.5, mode="bicubic"), IMAGES, 4),
    "einsum": (lambda x: torch.einsum("btc,bsc->bts", x, x), SEQUENCES, 3),
    "loss over a sequence": (
        lambda x: F.cross_entropy(x.flatten(0, 1), torch.zeros(x.shape[:2]).long().flatten()),
        SEQUENCES,
        3,
    ),
    "heads": (
        lambda x: (
            F.scaled_dot_product_attention(
                *torch.cat([x, x, x], -1)
                .view(x.shape[0], x.shape[1], 3, 2, 2)
                .permute(2, 0, 3, 1, 4)
                .unbind(0)
            )
            .transpose(1, 2)
            .reshape(x.shape)
        ),
        SEQUENCES,
        3,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_dynamic(name):
    body, shapes, traces = FUNCTIONS[name]
    check_sizes(body, shapes, traces)
