"""The graphs and training steps of settled.py against torch.compile: the time to the first result, and settled calls.

torch.compile needs a C++ compiler. Its cache is empty at the start, as on a user's first run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import torch
import tracehost
from harness import Report, best, call_loop
from settled import STEPS, WARM, graphs, training_step


def first_result(function: Callable, x: torch.Tensor) -> float:
    """Seconds."""
    start = time.perf_counter()
    function(x)
    return time.perf_counter() - start


def compare(report: Report, name: str, make: Callable, x: torch.Tensor, repeats: int) -> None:
    """`make`: the body, with a state of its own each time."""
    torch.compiler.reset()
    rivals = {
        "eager": make(),
        "ours": tracehost.function(make(), optimize="exact"),
        "compile": torch.compile(make()),
    }
    first = {key: first_result(function, x) for key, function in rivals.items()}
    for function in rivals.values():
        for _ in range(WARM):
            function(x)
    ns = best({key: call_loop(function, (x,)) for key, function in rivals.items()}, 60, repeats)
    report.add(f"{name}: torch.compile / eager", ns["compile"] / ns["eager"], "x")
    report.add(f"{name}: tracehost / eager", ns["ours"] / ns["eager"], "x")
    report.add(f"{name}: tracehost / torch.compile", ns["ours"] / ns["compile"], "x", 1.0)
    report.add(f"{name}: first result of torch.compile", first["compile"] * 1e3, "ms")
    report.add(f"{name}: first result of tracehost", first["ours"] * 1e3, "ms")


def run(report: Report, repeats: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        for name, (optimizer, layers, _) in STEPS.items():
            compare(
                report,
                name,
                lambda make=optimizer, n=layers: training_step(make, n),
                torch.rand(8, 16),
                repeats,
            )
        with torch.no_grad():
            for name, (body, x, _) in graphs().items():
                compare(report, name, lambda body=body: body, x, repeats)
