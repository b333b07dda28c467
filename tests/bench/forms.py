"""Ways to write one call: what keywords, defaults, methods, containers and declared sizes cost more than two
positional tensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import tracehost
from harness import Report, best


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclass
class Record:
    x: torch.Tensor
    y: torch.Tensor


class Owner:
    def plain(self, x, y):
        return x * y + 1

    traced = tracehost.function(plain)


def plain(x, y):
    return x * y + 1


def with_defaults(x, y, scale=1.0, mode="sum", flag=True, other=None):
    return x * y + 1


def with_keywords_only(x, *, y, scale=1.0):
    return x * y + 1


def with_extra(*xs):
    return xs[0] * xs[1] + 1


def with_named(**named):
    return named["x"] * named["y"] + 1


def of_dict(batch):
    return batch["x"] * batch["y"] + 1


def of_attributes(batch):
    return batch.x * batch.y + 1


def of_tuple(batch):
    return batch[0] * batch[1] + 1


def expression_loop(call: str, **names) -> Callable[[int], float]:
    """run(n): nanoseconds for each of n evaluations of `call`, as code that a user writes evaluates it."""
    scope = {"clock": time.thread_time_ns, **names}
    exec(
        "def run(n):\n start = clock()\n for _ in range(n):\n  "
        + call
        + "\n return (clock() - start) / n",
        scope,
    )
    return scope["run"]


def forms(report: Report, n: int, repeats: int) -> None:
    x, y = torch.rand(8, 8), torch.rand(8, 8)
    f = tracehost.function
    owner = Owner()
    spec = tracehost.TensorSpec([None, 8])
    relaxing = f(plain, reduce_retracing=True)
    relaxing(torch.rand(2, 8), torch.rand(2, 8))
    cases = {
        "by keyword": ("g(x, y=y)", f(plain), 15),
        "by keyword, both, in another order": ("g(y=y, x=x)", f(plain), 30),
        "with four Python defaults": ("g(x, y)", f(with_defaults), 40),
        "of a keyword-only function": ("g(x, y=y)", f(with_keywords_only), 30),
        "of *args": ("g(x, y)", f(with_extra), 20),
        "of **kwargs": ("g(x=x, y=y)", f(with_named), 60),
        "of a method": ("owner.traced(x, y)", None, 60),
        "of a dict": ("g(batch)", f(of_dict), 40),
        "of a tuple": ("g(batch)", f(of_tuple), 25),
        "of a namedtuple": ("g(batch)", f(of_attributes), 30),
        "of a dataclass": ("g(batch)", f(of_attributes), 60),
        "of relaxed sizes": ("g(x, y)", relaxing, 20),
        "of a declared signature": ("g(x, y)", f(plain, input_signature=[spec, spec]), 20),
    }
    batches = {
        "of a dict": {"x": x, "y": y},
        "of a tuple": (x, y),
        "of a namedtuple": Pair(x, y),
        "of a dataclass": Record(x, y),
    }
    rivals = {"positional": expression_loop("g(x, y)", g=f(plain), x=x, y=y)}
    for name, (call, g, _) in cases.items():
        rivals[name] = expression_loop(call, g=g, x=x, y=y, owner=owner, batch=batches.get(name))
    ns = best(rivals, n, repeats)
    report.add("x*y+1 on 8x8, called from a loop of its own", ns["positional"], "ns")
    for name, (_, _, budget) in cases.items():
        report.add(f"a call {name}: more than that", ns[name] - ns["positional"], "ns", budget)


def run(report: Report, repeats: int) -> None:
    with torch.no_grad():
        forms(report, 4000, repeats)
