"""Networks of torch.nn, three training steps as one traced Function: bit for bit as eager."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import tracehost
from torch import nn
from torch.nn.utils import parametrizations
from tracehost.testing import assert_traces

IMAGE = (2, 3, 16, 16)

# name: (module, shapes of float inputs, or (limit, shape) for indices, training)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], list[Any], bool]] = {
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        ),
        [IMAGE],
        True,
    ),
    "conv eval": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout()),
        [IMAGE],
        False,
    ),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.AlphaDropout(0.2)),
        [(4, 8)],
        True,
    ),
    "lstm": (lambda: nn.LSTM(5, 7, 2, bidirectional=True, batch_first=True), [(2, 6, 5)], True),
    "gru": (lambda: nn.GRU(5, 7), [(6, 2, 5)], True),
    "lstm cell": (lambda: nn.LSTMCell(5, 7), [(2, 5)], True),
    "transformer": (
        lambda: nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, batch_first=True),
        [(2, 5, 16), (2, 4, 16)],
        True,
    ),
    "encoder eval": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False
        ),
        [(2, 5, 16)],
        False,
    ),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(10, 8), nn.LayerNorm(8), nn.GELU(), nn.Softmax(-1)),
        [(10, (3, 4))],
        True,
    ),
    "embedding bag": (lambda: nn.EmbeddingBag(10, 4), [(10, (3, 4))], True),
    "norms": (
        lambda: nn.Sequential(
            nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
        ),
        [(2, 4, 6)],
        True,
    ),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(6, 4)), [(3, 6)], True),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Linear(6, 4)), [(3, 6)], True),
    "upsample": (
        lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2)),
        [(1, 4, 4, 4)],
        True,
    ),
    "bilinear": (lambda: nn.Bilinear(3, 4, 5), [(2, 3), (2, 4)], True),
    "conv transpose": (lambda: nn.ConvTranspose3d(2, 3, 2), [(1, 2, 3, 3, 3)], True),
}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)


def make_input(shape: Any) -> torch.Tensor:
    if isinstance(shape[1], tuple):
        return torch.randint(0, shape[0], shape[1])
    return torch.randn(shape)


def step(call: Callable, model: nn.Module, inputs: list[torch.Tensor], seed: int) -> list[Any]:
    """Forward, backward, a small update; all that a step gives and changes."""
    inputs = [i.clone().requires_grad_(i.is_floating_point()) for i in inputs]
    model.zero_grad()
    torch.manual_seed(seed)
    results = list(tensors(call(*inputs)))
    sum(r.sum() for r in results).backward()
    grads = [t.grad.clone() for t in [*inputs, *model.parameters()] if t.grad is not None]
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p -= 1e-3 * p.grad
    return [*results, *grads, *(b.clone() for b in model.buffers()), torch.get_rng_state()]


@pytest.mark.parametrize("name", NETWORKS)
def test_three_steps_are_those_of_eager(name: str) -> None:
    make, shapes, training = NETWORKS[name]
    torch.manual_seed(0)
    model = make().train(training)
    eager = copy.deepcopy(model)
    inputs = [make_input(shape) for shape in shapes]
    traced = tracehost.function(model)
    with assert_traces(traced, 1):
        for seed in range(3):
            got, expected = step(traced, model, inputs, seed), step(eager, eager, inputs, seed)
            assert len(got) == len(expected)
            assert all(torch.equal(a, b) for a, b in zip(got, expected))
    assert traced.stats()["hits"] == 2
