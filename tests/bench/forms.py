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


class Form(NamedTuple):
    call: str  # of g, with x, y, owner or batch
    function: Callable | None
    budget: float | None = None  # ns more than the positional call
    batch: object = None


def all_forms(x: torch.Tensor, y: torch.Tensor) -> dict[str, Form]:
    f = tracehost.function
    spec = tracehost.TensorSpec([None, 8])
    has_dynamic_sizes = f(plain, reduce_retracing=True)
    has_dynamic_sizes(torch.rand(2, 8), torch.rand(2, 8))
    return {
        "positional": Form("g(x, y)", f(plain)),
        "by keyword": Form("g(x, y=y)", f(plain), 15),
        "by keyword, both, in another order": Form("g(y=y, x=x)", f(plain), 30),
        "with four Python defaults": Form("g(x, y)", f(with_defaults), 40),
        "of a keyword-only function": Form("g(x, y=y)", f(with_keywords_only), 30),
        "of *args": Form("g(x, y)", f(with_extra), 20),
        "of **kwargs": Form("g(x=x, y=y)", f(with_named), 60),
        "of a method": Form("owner.traced(x, y)", None, 60),
        "of a dict": Form("g(batch)", f(of_dict), 40, {"x": x, "y": y}),
        "of a tuple": Form("g(batch)", f(of_tuple), 25, (x, y)),
        "of a namedtuple": Form("g(batch)", f(of_attributes), 30, Pair(x, y)),
        "of a dataclass": Form("g(batch)", f(of_attributes), 60, Record(x, y)),
        "of dynamic sizes": Form("g(x, y)", has_dynamic_sizes, 20),
        "of a declared signature": Form("g(x, y)", f(plain, input_signature=[spec, spec]), 20),
    }


def loops(forms: dict[str, Form], x: torch.Tensor, y: torch.Tensor) -> dict[str, Callable]:
    owner = Owner()
    return {
        name: expression_loop(form.call, g=form.function, x=x, y=y, owner=owner, batch=form.batch)
        for name, form in forms.items()
    }


def run(report: Report, repeats: int) -> None:
    x, y = torch.rand(8, 8), torch.rand(8, 8)
    with torch.no_grad():
        forms = all_forms(x, y)
        ns = best(loops(forms, x, y), 4000, repeats)
    report.add("x*y+1 on 8x8, called from a loop of its own", ns["positional"], "ns")
    for name, form in forms.items():
        if form.budget:
            more = ns[name] - ns["positional"]
            report.add(f"a call {name}: more than that", more, "ns", form.budget)
