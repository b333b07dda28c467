"""Settled calls against torch.jit.trace's, which has optimized its graph by then, with and without tapes: graphs of
the kind that people have, training steps, and a loop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

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


class Graph(NamedTuple):
    body: Callable[[torch.Tensor], torch.Tensor]
    x: torch.Tensor
    tape: float  # at most so much of eager, with optimize="exact"


def graphs() -> dict[str, Graph]:
    mlp = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    ).requires_grad_(False)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0).eval()
    layer.requires_grad_(False)
    product = torch.rand(8, 8)
    return {
        "150 ops, 3x3": Graph(chain, torch.rand(3, 3), 0.03),
        "150 ops, 300x300": Graph(chain, torch.rand(300, 300), 0.25),
        "RNN of 16 steps": Graph(rnn(16, 64), torch.rand(8, 64), 0.4),
        "MLP, batch 1": Graph(mlp, torch.rand(1, 64), 0.2),
        "MLP, batch 64": Graph(mlp, torch.rand(64, 64), 0.75),
        "transformer layer, batch 1": Graph(layer, torch.rand(1, 16, 64), 0.5),
        "tanh(x @ w) on 8x8": Graph(lambda x: torch.tanh(x @ product), torch.rand(8, 8), 0.7),
    }


def monte_carlo(x):
    inside = torch.zeros(())
    for _ in tracehost.range(100):
        inside = inside + (torch.rand(20, 2).square().sum(1) < x).float().mean()
    return inside / 100


STEPS = {
    "SGD step with momentum": (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), 3, 0.25),
    "Adam step of 20 parameters": (lambda p: torch.optim.Adam(p, lr=0.01), 10, 0.2),
}


def training_step(make: Callable, layers: int) -> Callable[[torch.Tensor], torch.Tensor]:
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(layers)))
    optimizer = make(model.parameters())

    def body(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return body


def run_steps(report: Report, repeats: int) -> None:
    """Whole training steps; each rival has a model of its own."""
    x = torch.rand(8, 16)
    for name, (make, layers, most) in STEPS.items():
        rivals = {
            "eager": training_step(make, layers),
            "ours": tracehost.function(training_step(make, layers), optimize="off"),
            "tape": tracehost.function(training_step(make, layers), optimize="exact"),
        }
        add_rows(report, name, rivals, x, most, repeats)
    with torch.no_grad():
        rivals = {
            "eager": monte_carlo,
            "ours": tracehost.function(monte_carlo, optimize="off"),
            "tape": tracehost.function(monte_carlo, optimize="exact"),
        }
        add_rows(report, "Monte Carlo of 100 draws", rivals, torch.ones(()), 0.6, repeats)


def add_rows(report: Report, name: str, rivals: dict, x: torch.Tensor, most: float, repeats: int):
    for function in rivals.values():
        for _ in range(WARM):
            function(x)
    ns = best({key: call_loop(function, (x,)) for key, function in rivals.items()}, 60, repeats)
    report.add(f"{name}: tracehost / eager", ns["ours"] / ns["eager"], "x")
    report.add(f"{name}: with a tape / eager", ns["tape"] / ns["eager"], "x", most)


def run(report: Report, repeats: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run_steps(report, repeats)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.jit.trace is deprecated
        for name, (body, x, tape) in graphs().items():
            rivals = {
                "eager": body,
                "jit": torch.jit.trace(body, (x,), check_trace=False),
                "ours": tracehost.function(body, optimize="off"),
                "tape": tracehost.function(body, optimize="exact"),
            }
            for function in rivals.values():
                for _ in range(WARM):
                    function(x)
            loops = {key: call_loop(function, (x,)) for key, function in rivals.items()}
            ns = best(loops, 60, repeats)
            report.add(f"{name}: torch.jit.trace / eager", ns["jit"] / ns["eager"], "x")
            report.add(f"{name}: tracehost / eager", ns["ours"] / ns["eager"], "x")
            report.add(f"{name}: tracehost / torch.jit.trace", ns["ours"] / ns["jit"], "x", 1.0)
            report.add(f"{name}: with a tape / eager", ns["tape"] / ns["eager"], "x", tape)
