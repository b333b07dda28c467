"""Bits of tapes that ATen chooses by more than values and sizes: what requires a gradient, how many threads there are."""

import pytest
import torch
import torch.nn.functional as F
import tracehost


def product():
    w = torch.nn.Parameter(torch.randn(8, 16))
    return lambda x: w @ x, (4, 16, 8)


def linear_of_a_transposed():
    layer = torch.nn.Linear(4, 8, bias=False)
    return lambda x: layer(x.transpose(0, 1)), (2, 3, 4)


def linear_behind_an_lstm():
    lstm, head = torch.nn.LSTM(5, 4, batch_first=True), torch.nn.Linear(4, 4)
    return lambda x: head(lstm(x)[0]), (4, 6, 5)


def gru():
    layer = torch.nn.GRU(5, 4, batch_first=True)
    return lambda x: layer(x)[0], (4, 6, 5)


def attention():
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    return lambda x: layer(x, x, x, need_weights=False)[0], (2, 5, 8)


def decoder():
    layer = torch.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True).eval()
    return lambda x: layer(x, x), (2, 5, 8)


def queries_that_are_a_parameter():
    q = torch.nn.Parameter(torch.randn(1, 3, 4))
    return lambda x: q.matmul(x.mT), (5, 6, 4)


def in_a_branch():
    w = torch.nn.Parameter(torch.randn(8, 16))

    def body(x):
        if x.sum() > -1e9:
            y = w @ x + 0
        else:
            y = w @ (x * 2) + 1
        return y

    return body, (4, 16, 8)


PRODUCTS = [
    product,
    linear_of_a_transposed,
    linear_behind_an_lstm,
    gru,
    attention,
    decoder,
    queries_that_are_a_parameter,
    in_a_branch,
]


@pytest.mark.parametrize("make", PRODUCTS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_products_with_parameters_without_gradients(make, mode):
    """matmul() folds a batch into one product if a parameter requires a gradient, in any grad mode."""
    torch.manual_seed(0)
    body, shape = make()
    f = tracehost.function(body)
    with mode():
        for _ in range(8):
            x = torch.randn(shape)
            assert torch.equal(f(x), body(x))
    if (make, mode) != (in_a_branch, torch.inference_mode):  # whose sides have a `raise`
        assert f.specializations()[0].runs_by.startswith("a tape")


def test_a_parameter_that_is_frozen_between_calls():
    torch.manual_seed(0)
    w = torch.nn.Parameter(torch.randn(8, 16))
    f = tracehost.function(lambda x: w @ x)
    with torch.no_grad():
        for call in range(16):
            w.requires_grad_(call % 8 < 4)
            x = torch.randn(4, 16, 8)
            assert torch.equal(f(x), w @ x)


@pytest.mark.parametrize("threads", [(1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("how", ["none", "tanh"])
def test_gelu_with_several_threads(threads, dtype, how):
    """From 16,385 values on, eager gives each thread an equal part, whose last values have other bits."""
    before = torch.get_num_threads()
    try:
        for size in (16384, 16385, 20001, 40003):
            f = tracehost.function(lambda x, y: F.gelu(x, approximate=how) + y)
            for call in range(10):
                torch.set_num_threads(threads[call >= 4])
                x, y = torch.randn(2, size, dtype=dtype)
                assert torch.equal(f(x, y), F.gelu(x, approximate=how) + y)
    finally:
        torch.set_num_threads(before)
