"""What tests of CUDA graphs share: when they can run, a graph worth a capture, and what serves it."""

import functools

import pytest
import torch
import tracehost

NEEDED = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
    pytest.mark.skipif(
        tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15),
        reason="CUDA graphs need torch 2.15",
    ),
]

function = functools.partial(tracehost.function, optimize="exact")


def chain(x):
    for _ in range(4):
        x = torch.relu(x * 1.01 + 0.1)
    return x


def served_by(f):
    return f.specializations()[-1].runs_by


def settled(body=chain, calls=8, size=3):
    f = function(body)
    for i in range(calls):
        f(torch.full((size,), float(i), device="cuda"))
    return f
