"""Benchmarks of settled calls on a device, against what PyTorch has: `python device.py --device cuda --out FILE`.

Each line of FILE is one figure as JSON, written as soon as it is measured. A second run measures what is missing, so
a run that was cut off is continued. Each program has a process of its own: a device error ends only that one.

A figure has microseconds of a call with all its work on the device (`us`) and until the call returns (`host_us`),
seconds until the first result (`first_s`), synchronisations (`syncs`), MiB of device memory (`mib`), or an `error`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONTINUE = 75  # the exit code, if some figures are missing

try:
    import standin  # the simulated runtime; before torch
except ImportError:
    standin = None

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import tracehost  # noqa: E402
from torch import nn  # noqa: E402


def chain(ops: int) -> Callable:
    def make(device: str):
        def body(x):
            for _ in range(ops // 2):
                x = torch.tanh(x * 1.01)
            return x

        return body, lambda i: (torch.full((32, 32), i / 8, device=device),)

    return make


def mlp(device: str):
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)]
    model = nn.Sequential(*layers, nn.GELU(), nn.Linear(256, 10), nn.Softmax(-1)).to(device)
    return model.requires_grad_(False), lambda i: (torch.full((1, 64), i / 8, device=device),)


def block(device: str):
    """A transformer block at batch 1, with 16 positions."""
    model = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True, norm_first=True)
    model = model.to(device).train().requires_grad_(False)
    return model, lambda i: (torch.full((1, 16, 256), i / 8, device=device),)


class Decoder(nn.Module):
    """One step of a decoder: the context grows in a cache of fixed size."""

    def __init__(self, width: int = 256, positions: int = 512):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("keys", torch.zeros(positions, width))
        self.register_buffer("values", torch.zeros(positions, width))
        self.register_buffer("positions", torch.arange(positions))

    def forward(self, x, position):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(0, position, k)
        self.values.index_copy_(0, position, v)
        scores = q @ self.keys.t() / 16 + (self.positions > position) * -1e9
        x = x + self.out(torch.softmax(scores, -1) @ self.values)
        return x + self.down(F.gelu(self.up(x)))


def decode(device: str):
    model = Decoder().to(device).requires_grad_(False)

    def arguments(i):
        return torch.full((1, 256), i / 8, device=device), torch.tensor([i % 512], device=device)

    return model, arguments


def training(device: str):
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda i: (torch.full((32, 64), i / 8, device=device),)


PROGRAMS: dict[str, Callable] = {
    "chain-100": chain(100),
    "chain-300": chain(300),
    "chain-1000": chain(1000),
    "mlp": mlp,
    "transformer-block": block,
    "decode-step": decode,
    "training-step": training,
}


def graph_of(body: Callable, arguments: tuple) -> Callable:
    """A raw CUDA graph: a call copies its arguments in, replays, and clones the result."""
    inputs = [a.clone() for a in arguments]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            body(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = body(*inputs)

    def call(*given):
        for static, new in zip(inputs, given, strict=True):
            static.copy_(new)
        graph.replay()
        return output.clone()

    return call


RUNNERS: dict[str, Callable] = {
    "eager": lambda body, arguments: body,
    "tracehost-off": lambda body, arguments: tracehost.function(body, optimize="off"),
    "tracehost-exact": lambda body, arguments: tracehost.function(body, optimize="exact"),
    "jit.trace": lambda body, arguments: torch.jit.trace(body, arguments, check_trace=False),
    "compile": lambda body, arguments: torch.compile(body),
    "compile-reduce-overhead": lambda body, arguments: torch.compile(body, mode="reduce-overhead"),
    "graphed-callables": torch.cuda.make_graphed_callables,
    "raw-graph": graph_of,
}
NOT_MEASURED = {  # they repeat the backward as a body, or record no optimizer
    ("training-step", "jit.trace"),
    ("training-step", "graphed-callables"),
}


def synchronisations(call: Callable[[], Any]) -> int:
    if standin:
        standin.reset()
        call()
        return standin.count("sync")
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(one.message) for one in caught)


def measure(program: str, runner: str, device: str, calls: int) -> dict[str, Any]:
    torch.manual_seed(0)
    on_cuda = device.startswith("cuda")
    wait = torch.cuda.synchronize if on_cuda else lambda: None
    body, arguments = PROGRAMS[program](device)
    before = torch.cuda.memory_allocated() if on_cuda else 0
    began = time.perf_counter()
    call = RUNNERS[runner](body, arguments(0))
    call(*arguments(0))
    wait()
    first = time.perf_counter() - began
    given = [arguments(i) for i in range(8)]
    for i in range(max(8, calls // 4)):
        call(*given[i % 8])
    wait()
    host, whole = [], []
    for _ in range(5):
        began = time.perf_counter()
        for i in range(calls):
            call(*given[i % 8])
        host.append((time.perf_counter() - began) / calls)
        wait()
        whole.append((time.perf_counter() - began) / calls)
    figure: dict[str, Any] = {
        "us": round(statistics.median(whole) * 1e6, 2),
        "host_us": round(statistics.median(host) * 1e6, 2),
        "first_s": round(first, 3),
    }
    if on_cuda:
        figure["syncs"] = synchronisations(lambda: call(*given[0]))
        figure["mib"] = round((torch.cuda.memory_allocated() - before) / 2**20, 2)
    if runner == "tracehost-exact":
        figure["runs_by"] = call.specializations()[-1].runs_by
        figure["graph_mib"] = round(call.stats()["device_bytes"] / 2**20, 2)
    return figure


def known(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    lines = out.read_text().splitlines() if out.exists() else []
    figures = [json.loads(one) for one in lines if one.endswith("}")]  # the last may be cut off
    return {(one["program"], one["runner"]): one for one in figures}


def note(out: Path, program: str, runner: str, figure: dict[str, Any]) -> None:
    with out.open("a") as file:
        file.write(json.dumps({"program": program, "runner": runner, **figure}) + "\n")


def measure_one(options: argparse.Namespace) -> None:
    """In a process of its own."""
    try:
        figure = measure(*options.one, options.device, options.calls)
    except Exception as error:
        figure = {"error": f"{type(error).__name__}: {error}".split("\n")[0][:300]}
    note(options.out, *options.one, figure)


def main() -> int:
    parser = argparse.ArgumentParser(prog="device.py")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True, help="figures, one a line")
    parser.add_argument("--calls", type=int, default=200, help="calls of one measurement")
    parser.add_argument("--seconds", type=float, default=500, help="begin nothing after so long")
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--runners", nargs="+", default=list(RUNNERS), choices=list(RUNNERS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure_one(options)
        return 0
    began = time.monotonic()
    for program in options.programs:
        for runner in options.runners:
            if (program, runner) in NOT_MEASURED or (program, runner) in known(options.out):
                continue
            left = options.seconds - (time.monotonic() - began)
            if left <= 0:
                print("cut off: run it again for the rest", flush=True)
                return CONTINUE
            command = [sys.executable, __file__, *sys.argv[1:], "--one", program, runner]
            try:
                code = subprocess.run(command, timeout=max(60, left)).returncode
            except subprocess.TimeoutExpired:
                code = "a timeout"
            if (program, runner) not in known(options.out):
                note(options.out, program, runner, {"error": f"the process ended with {code}"})
            print(json.dumps(known(options.out)[program, runner]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
