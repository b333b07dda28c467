"""Running statistics of a batch_norm whose result nobody uses, in sides and loops."""

import copy

import pytest
import torch
import tracehost


def side(norm, x, n):
    if n == 1:
        norm(x)
    return x


def loop(norm, x, n):
    for _ in range(n):
        norm(x)
    return x


def straight(norm, x, n):
    norm(x)
    return x


@pytest.mark.parametrize("body", [side, loop, straight])
@pytest.mark.parametrize("kind", [torch.nn.BatchNorm1d, torch.nn.InstanceNorm1d])
@pytest.mark.parametrize("training", [True, False])
def test_statistics_are_eagers(body, kind, training):
    torch.manual_seed(0)
    norm = kind(2, track_running_stats=True).train(training)
    other = copy.deepcopy(norm)
    f = tracehost.function(lambda x, n: body(norm, x, n))
    for n in (0, 1, 1, 0, 2, 1, 1):
        x, n = torch.randn(3, 2, 4), torch.tensor(n)
        f(x, n), body(other, x, n)
        for own, eager in zip(norm.buffers(), other.buffers(), strict=True):
            assert torch.equal(own, eager)
