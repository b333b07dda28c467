"""What a trace costs: plain, of declared sizes, of sizes found to differ, of branches and loops, from specs.

Each as the first of its process, in a process of its own, and warm: the fastest of some. Wall time of the
first, CPU time of the thread of the others."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import tracehost
from harness import Report
from torch.nn import functional as F

Body = Callable[[torch.Tensor], torch.Tensor]
LIVE = 60


def chain(ops: int) -> Body:
    def body(x):
        for _ in range(ops // 2):
            x = torch.tanh(x) + 1.0
        return x

    return body


def branch(x):
    if x.sum() > 0:
        for _ in range(15):
            x = torch.tanh(x) + 1.0
    else:
        for _ in range(15):
            x = torch.tanh(x) - 1.0
    return x


def loop(x):
    while x.sum() < 1000.0:
        for _ in range(15):
            x = torch.tanh(x) + 1.0
        x = x + 1000.0
    return x


CONV = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU()
)
LSTM = torch.nn.LSTM(8, 16)


def convolutions(x):
    return CONV(x).mean((2, 3))


def attention(x):
    for _ in range(5):
        x = F.scaled_dot_product_attention(x, x, x) + x
    return x


def recurrent(x):
    return LSTM(x)[0].sum(0)


BODIES: dict[str, tuple[Body, tuple[int, ...]]] = {
    "10 ops": (chain(10), (8, 16)),
    "100 ops": (chain(100), (8, 16)),
    "1,000 ops": (chain(1000), (8, 16)),
    "conv": (convolutions, (4, 3, 16, 16)),
    "sdpa": (attention, (2, 2, 12, 8)),
    "lstm": (recurrent, (12, 4, 8)),
}
STAGED: dict[str, tuple[Body, tuple[int, ...]]] = {
    "30 ops": (chain(30), (8, 16)),
    "tensor if, 30 ops in each branch": (branch, (8, 16)),
    "tensor while, 31 ops": (loop, (8, 16)),
}


def plain(body: Body, shape: tuple[int, ...]) -> Callable[[], None]:
    function, x = tracehost.function(body), torch.ones(shape)
    return lambda: function(x)


def declared(body: Body, shape: tuple[int, ...]) -> Callable[[], None]:
    spec = tracehost.TensorSpec([None, *shape[1:]])
    function, x = tracehost.function(body, input_signature=[spec]), torch.ones(shape)
    return lambda: function(x)


def from_specs(body: Body, shape: tuple[int, ...]) -> Callable[[], None]:
    function, spec = tracehost.function(body), tracehost.TensorSpec([None, *shape[1:]])
    return lambda: function.get_concrete_function(spec)


def reduced(body: Body, shape: tuple[int, ...]) -> Callable[[], None]:
    """Only the second trace, which finds that the sizes differ."""
    function = tracehost.function(body, reduce_retracing=True)
    function(torch.ones(shape))
    x = torch.ones((shape[0] + 1, *shape[1:]))
    return lambda: function(x)


KINDS = {"plain": plain, "declared": declared, "reduced": reduced, "from specs": from_specs}


def first_ms(kind: str, body: str) -> float:
    """In a process of its own, in which the body has run eagerly."""
    command = [sys.executable, str(Path(__file__)), kind, body]
    return min(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    )


def warm_ms(makers: dict[str, Callable[[], Callable[[], None]]], repeats: int) -> dict[str, float]:
    """Each trace with an empty cache, in turn, the fastest of each."""
    results = dict.fromkeys(makers, float("inf"))
    for _ in range(repeats + 1):
        for name, make in makers.items():
            trace = make()
            start = time.thread_time_ns()
            trace()
            results[name] = min(results[name], (time.thread_time_ns() - start) / 1e6)
    return results


def misses_ms(repeats: int) -> dict[int, float]:
    """A further trace of an encoder of four layers beside 1 other and beside LIVE, in turn."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).train()
    functions = {}
    for live in (1, LIVE):
        functions[live] = tracehost.function(lambda x: encoder(x), limit=live, validate="off")
        for length in range(live):
            functions[live](torch.ones(2, 2 + length, 32))
    results = dict.fromkeys(functions, float("inf"))
    for length in range(max(20, 2 * repeats)):
        for live, function in functions.items():
            x = torch.ones(2, 2 + LIVE + length, 32)
            start = time.thread_time_ns()
            function(x)
            results[live] = min(results[live], (time.thread_time_ns() - start) / 1e6)
    return results


def run(report: Report, repeats: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", tracehost.RetraceWarning)
    with torch.no_grad():
        for name, (body, shape) in BODIES.items():
            makers = {k: lambda k=k: KINDS[k](body, shape) for k in KINDS}
            ms = warm_ms(makers, max(3, repeats // 4))
            report.add(f"{name}: plain trace", ms["plain"], "ms")
            report.add(f"{name}: declared / plain", ms["declared"] / ms["plain"], "x", 2)
            report.add(f"{name}: reduced / plain", ms["reduced"] / ms["plain"], "x")
            report.add(f"{name}: from specs / plain", ms["from specs"] / ms["plain"], "x")
            first = {kind: first_ms(kind, name) for kind in KINDS}
            report.add(f"{name}: first of the process, plain", first["plain"], "ms")
            for kind in ("declared", "from specs"):
                budget = 2 if kind == "declared" else None
                times = first[kind] / first["plain"]
                report.add(f"{name}: first, {kind} / plain", times, "x", budget)
        makers = {n: lambda b=b, s=s: plain(b, s) for n, (b, s) in STAGED.items()}
        ms = warm_ms(makers, max(3, repeats // 4))
        base, base_first = ms["30 ops"], first_ms("plain", "30 ops")
        for name in list(STAGED)[1:]:
            report.add(name, ms[name], "ms", 3 * base + 5)
            report.add(
                f"{name}: first of the process", first_ms("plain", name), "ms", 3 * base_first + 5
            )
        ms = misses_ms(repeats)
        report.add("a miss of an encoder of 4 layers, 1 live", ms[1], "ms")
        report.add(f"  {LIVE} live / 1 live", ms[LIVE] / ms[1], "x", 1.2)


if __name__ == "__main__":
    kind, name = sys.argv[1:]
    body, shape = (BODIES | STAGED)[name]
    with torch.no_grad():
        body(torch.ones(shape))
        made = KINDS[kind](body, shape)
        begin = time.perf_counter()
        made()
        print(1e3 * (time.perf_counter() - begin))
