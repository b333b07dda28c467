"""Sizes are plain ints while a function is traced."""

import pytest
import torch
import torch.nn.functional as F
import tracehost
from core_support import check
from torch import nn
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

READS = {
    "shape": lambda x: x.shape[0],
    "negative": lambda x: x.shape[-1],
    "size": lambda x: x.size(1),
    "size()": lambda x: x.size()[0],
    "size(dim=)": lambda x: x.size(dim=0),
    "numel": lambda x: x.numel(),
    "nelement": lambda x: x.nelement(),
    "shape.numel": lambda x: x.shape.numel(),
    "len": lambda x: len(x),
    "dim": lambda x: x.dim(),
    "ndim": lambda x: x.ndim,
    "unpacked": lambda x: (lambda a, b: a * b)(*x.shape),
    "of a result": lambda x: (x @ x.t()).shape[1],
    "of a view": lambda x: x[:, 1:].size(-1),
    "of a cat": lambda x: torch.cat([x, x]).shape[0],
    "torch.numel": lambda x: torch.numel(x),
    "element_size": lambda x: x.element_size(),
}


@pytest.mark.parametrize("read", READS)
def test_a_size_is_an_int(read):
    def body(x):
        n = READS[read](x)
        assert type(n) is int
        table = {n: 3.0}
        return x * table[n] + n, n, [0] * n, range(n)[-1]

    f = check(body, torch.randn(4, 6, requires_grad=True))
    check(body, torch.randn(2, 3), function=f, traces=2)


def test_sizes_drive_python_control_flow():
    def body(x):
        if x.shape[0] > 2 and x.shape[1] % 2 == 0:
            x = x.view(x.shape[0] // 2, 2, -1).sum(1)
        for i in range(x.size(0)):
            x = x + i
        return x.reshape(-1, x.numel() // len(x)), x.shape, x.size()

    f = tracehost.function(body)
    for n, shape in enumerate([(4, 6), (2, 6), (6, 3), (8, 2)], 1):
        check(body, torch.randn(shape, requires_grad=True), function=f, traces=n)


def test_sizes_in_the_result_are_the_calls_own():
    f = tracehost.function(lambda x: {"n": x.size(0), "shape": x.shape, "x": x * x.size(0)})
    with assert_traces(f, 2):
        for n in (3, 4, 3, 4):
            result = f(torch.ones(n))
            assert type(result["n"]) is int and result["n"] == n
            assert type(result["shape"]) is torch.Size and result["shape"] == (n,)
            assert torch.equal(result["x"], torch.full((n,), float(n)))


def test_iteration_unpacking_and_reversal():
    def body(x):
        a, b, *rest = x
        total = sum(row * i for i, row in enumerate(x))
        return a, b, rest, total, list(reversed(x)), [v for row in x for v in row], x.unbind()[1]

    check(body, torch.randn(4, 2, requires_grad=True))


def test_zip_enumerate_and_star():
    def body(x, y):
        return torch.stack([a @ b for a, b in zip(x, y)]), torch.stack([*x]), dict(enumerate(y))

    check(body, torch.randn(3, 2), torch.randn(3, 2, requires_grad=True))


def test_comparisons_of_shapes():
    def body(x, y):
        same = x.shape == y.shape
        return (x + y if same else x.sum() + y.sum()), same, x.shape[1:] == y.shape[1:]

    f = check(body, torch.ones(2, 3), torch.ones(2, 3))
    check(body, torch.ones(2, 3), torch.ones(4, 3), function=f, traces=2)


def test_strides_and_offsets_are_ints():
    def body(x):
        step = x.stride(0)
        offset = x.clone().storage_offset()
        assert type(step) is int and type(offset) is int and type(x.stride()) is tuple
        return torch.as_strided(x, (2,), (step,), offset)

    f = tracehost.function(body)
    wide, narrow = torch.arange(12.0).view(3, 4), torch.arange(12.0).view(4, 3).t()
    with assert_traces(f, 2):
        for x in (wide, narrow, wide, narrow):
            assert torch.equal(f(x), body(x))


READS_OF_MEMORY = {
    "storage_offset": lambda x: x * x.storage_offset(),
    "_is_view": lambda x: x * 2 if x._is_view() else x * 3,
    "_base": lambda x: x * 2 if x._base is None else x * 3,
}


@pytest.mark.parametrize("name", READS_OF_MEMORY)
def test_where_an_input_lies_in_memory_is_no_part_of_a_signature(name):
    outer = torch.arange(6.0)
    body = READS_OF_MEMORY[name]
    for f, args in (
        (tracehost.function(body), (outer[3:],)),
        (tracehost.function(lambda x: body(x[1:])), (torch.ones(3),)),
        (tracehost.function(lambda: body(outer)), ()),
    ):
        with pytest.raises(
            tracehost.ValueReadError,
            match=rf"^the body reads Tensor.{name} at test_core_sizes.py:\d+, of memory that it did not make: ",
        ):
            f(*args)
    own = tracehost.function(lambda x: body((x + 1)[1:]))
    assert torch.equal(own(outer), body((outer + 1)[1:]))


def test_where_memory_of_the_body_lies_depends_on_strides():
    def body(x):
        return x * 2 if (x + 1).t().reshape(-1)._is_view() else x * 3

    f = tracehost.function(body)
    wide, turned = torch.ones(2, 3), torch.ones(3, 2).t()
    with assert_traces(f, 2):
        for x in (wide, turned, wide, turned):
            assert torch.equal(f(x), body(x))
        assert not torch.equal(body(wide), body(turned))


MODULES = {
    "linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "lstm": (lambda: nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True), (2, 3, 4)),
    "gru": (lambda: nn.GRU(4, 5), (3, 2, 4)),
    "rnn cell": (lambda: nn.LSTMCell(4, 5), (2, 4)),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (2, 3, 4)),
    "batch norm": (lambda: nn.BatchNorm1d(4), (3, 4)),
    "batch norm 2d": (lambda: nn.BatchNorm2d(2), (3, 2, 4, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "layer norm": (lambda: nn.LayerNorm(4), (3, 4)),
    "instance norm": (lambda: nn.InstanceNorm1d(4), (3, 4, 5)),
    "conv": (lambda: nn.Conv2d(2, 3, 3, padding="same"), (1, 2, 5, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 2, stride=2), (1, 2, 4, 4)),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d((2, None)), (1, 2, 5, 4)),
    "unfold": (lambda: nn.Unfold(2), (1, 2, 4, 4)),
    "flatten": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), (2, 3, 4)),
    "upsample": (lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), (1, 1, 4, 6)),
}


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_torch_modules_that_compute_with_sizes(name, training):
    make, shape = MODULES[name]
    torch.manual_seed(3)
    ours, theirs = make().train(training), make().train(training)
    theirs.load_state_dict(ours.state_dict())
    f = tracehost.function(ours)
    with assert_traces(f, 1):
        for call in range(3):
            x = torch.randn(shape, requires_grad=True)
            twin = x.detach().clone().requires_grad_()
            results = []
            for module, value in ((f, x), (theirs, twin)):
                torch.manual_seed(5)
                out = module(value)
                results.append(out if isinstance(out, torch.Tensor) else out[0])
            assert torch.equal(results[0], results[1]), call
            for out in results:
                (out * torch.arange(out.numel()).view(out.shape)).sum().backward()
            assert torch.equal(x.grad, twin.grad), call
            for (key, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters()):
                assert a.grad is not None and torch.equal(a.grad, b.grad), (call, key)
            for (key, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers()):
                assert torch.equal(a, b), (call, key)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_multihead_attention_with_masks(training):
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).train(training)
    mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    padding = torch.zeros(3, 4, dtype=torch.bool)
    padding[:, -1] = True

    def body(q, mask, padding):
        plain, weights = attention(q, q, q)
        masked, _ = attention(q, q, q, key_padding_mask=padding, need_weights=False)
        causal, _ = attention(q, q, q, attn_mask=mask)
        return plain, weights, masked, causal

    check(
        body,
        torch.randn(3, 4, 8, requires_grad=True),
        mask,
        padding,
        extra=attention.parameters(),
    )


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("scale", [2, 1.5, (2, 0.5)])
def test_interpolate_with_scale_factors(mode, scale):
    check(
        lambda x: F.interpolate(x, scale_factor=scale, mode=mode),
        torch.randn(1, 2, 4, 6, requires_grad=True),
    )


@pytest.mark.parametrize(
    "body",
    [
        lambda x: F.pad(x, (1, x.shape[-1] % 3)),
        lambda x: x.new_zeros(x.shape[0], 2),
        lambda x: torch.zeros(x.shape) + x,
        lambda x: torch.arange(x.size(0)) + x.sum(),
        lambda x: x.expand(2, *x.shape),
        lambda x: x.split([1, x.shape[0] - 1]),
        lambda x: x.chunk(2, dim=1),
        lambda x: x[x.shape[0] // 2 :, : x.shape[1] - 1],
        lambda x: torch.linspace(0, 1, x.shape[1]) * x,
        lambda x: x / x.shape[0] ** 0.5,
        lambda x: x.repeat(len(x), 1),
        lambda x: torch.full((x.numel(),), 2.0),
        lambda x: F.one_hot(torch.arange(3), num_classes=x.shape[1]),
    ],
)
def test_sizes_as_arguments_of_ops(body):
    check(body, torch.randn(4, 6, requires_grad=True))


OF_VALUES = [
    lambda x: x.nonzero().shape[0] * x,
    lambda x: x * len(x[x > 0]),
    lambda x: x * torch.unique(x).numel(),
]


@pytest.mark.parametrize("body", OF_VALUES)
def test_sizes_that_depend_on_values_are_numbers_of_the_graph(body):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for x in (torch.ones(3), torch.tensor([1.0, -1.0, 0.0]), -torch.ones(3)):
            assert torch.equal(f(x), body(x))


@pytest.mark.parametrize("body", OF_VALUES)
def test_sizes_that_depend_on_values_are_reads(body):
    with pytest.raises(tracehost.ValueReadError, match=r"depends on a tensor's values"):
        tracehost.function(body, value_reads="error")(torch.ones(3))


def test_a_loop_of_python_over_a_size_that_depends_on_values_is_a_trace_for_each_size():
    f = tracehost.function(lambda x: list(x.masked_select(x > 0)))
    for x, traces in (
        (torch.ones(3), 1),
        (torch.tensor([1.0, -1.0, 2.0]), 2),
        (torch.full((3,), 2.0), 2),
    ):
        assert [float(t) for t in f(x)] == [float(t) for t in x[x > 0]]
        assert f.tracing_count() == traces


def test_results_whose_size_depends_on_values_come_back_right():
    f = tracehost.function(lambda x: (x[x > 0] * 2, x.nonzero()))
    with assert_traces(f, 1):
        for x in (torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0]), torch.tensor([-1.0, -1.0])):
            selected, places = f(x)
            assert torch.equal(selected, x[x > 0] * 2) and torch.equal(places, x.nonzero())
