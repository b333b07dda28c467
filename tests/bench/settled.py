"""Settled calls against torch.jit.trace's, which has optimized its graph by then: five graphs of the kind that
people have."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import tracehost
from harness import Report, best, call_loop

WARM = 30  # torch.jit.trace optimizes in its first calls


def chain(x):
    for _ in range(75):
        x = x * 0.99 + 0.01
    return x


def rnn(steps: int, features: int) -> Callable[[torch.Tensor], torch.Tensor]:
    w, u = torch.randn(features, features) / features, torch.randn(features, features) / features

    def body(x):
        h = torch.zeros_like(x)
        for _ in range(steps):
            h = torch.tanh(x @ w + h @ u)
        return h

    return body


def graphs() -> dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]]:
    mlp = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    return {
        "150 ops, 3x3": (chain, torch.rand(3, 3)),
        "150 ops, 300x300": (chain, torch.rand(300, 300)),
        "RNN of 16 steps": (rnn(16, 64), torch.rand(8, 64)),
        "MLP": (mlp.requires_grad_(False), torch.rand(32, 64)),
        "transformer layer": (layer.requires_grad_(False), torch.rand(4, 16, 64)),
    }


def run(report: Report, repeats: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.jit.trace is deprecated
        for name, (body, x) in graphs().items():
            rivals = {
                "eager": body,
                "jit": torch.jit.trace(body, (x,), check_trace=False),
                "ours": tracehost.function(body),
            }
            for function in rivals.values():
                for _ in range(WARM):
                    function(x)
            loops = {key: call_loop(function, (x,)) for key, function in rivals.items()}
            ns = best(loops, 60, repeats)
            report.add(f"{name}: torch.jit.trace / eager", ns["jit"] / ns["eager"], "x")
            report.add(f"{name}: tracehost / eager", ns["ours"] / ns["eager"], "x")
            report.add(f"{name}: tracehost / torch.jit.trace", ns["ours"] / ns["jit"], "x", 1.0)
