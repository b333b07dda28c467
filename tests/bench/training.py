"""A whole training step of a small network: eager against one Function, within one run."""

from __future__ import annotations

import torch
import tracehost
from harness import Report, best, call_loop
from torch import nn


def make_step(traced: bool):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return tracehost.function(step) if traced else step


def run(report: Report, repeats: int) -> None:
    x, y = torch.randn(32, 16), torch.randint(0, 4, (32,))
    rivals = {name: call_loop(make_step(name == "traced"), (x, y)) for name in ("eager", "traced")}
    ns = best(rivals, 50, repeats)
    report.add("an MLP's training step (SGD), eager", ns["eager"] / 1e6, "ms")
    report.add("the same in one Function", ns["traced"] / 1e6, "ms")
    report.add("the Function's time of eager's", ns["traced"] / ns["eager"], "x", 1.0)
