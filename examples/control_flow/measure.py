"""Runs one program as plain Python and staged, compares them, and prints what each costs: what the files here share."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import tracehost
from torch.utils._pytree import tree_leaves
from tracehost.testing import assert_traces

Call = Sequence[torch.Tensor]


def _tensors(value: Any) -> list[torch.Tensor]:
    """Python's numbers too, to be compared as tensors are."""
    return [torch.as_tensor(leaf) for leaf in tree_leaves(value)]


def _copies(call: Call, gradients: bool) -> list[torch.Tensor]:
    return [a.detach().clone().requires_grad_(gradients and a.is_floating_point()) for a in call]


def _run(
    function: Callable[..., Any], call: Call, parameters: list[torch.Tensor], gradients: bool
) -> Any:
    """Results, the arguments afterwards, gradients. Each run draws the same random numbers."""
    torch.manual_seed(0)
    args = _copies(call, gradients)
    results = function(*args)
    found: list[torch.Tensor] = []
    if gradients:
        leaves = [a for a in (*args, *parameters) if a.requires_grad]
        loss = sum(t.sum() for t in _tensors(results) if t.requires_grad)
        given = torch.autograd.grad(loss, leaves, allow_unused=True)
        found = [torch.zeros_like(a) if g is None else g for g, a in zip(given, leaves)]
    return [t.detach() for t in _tensors(results)], [a.detach() for a in args], found


def _ms(function: Callable[..., Any], calls: Sequence[Call], seconds: float = 0.2) -> float:
    """Of a call, in the best of some rounds over all of them."""
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        given = [_copies(call, False) for call in calls]
        start = time.perf_counter()
        for args in given:
            function(*args)
        best = min(best, (time.perf_counter() - start) / len(calls))
    return 1e3 * best


def _retraced(function: Callable[..., Any], calls: Sequence[Call]) -> tuple[int, float]:
    """How many traces it takes if each records only the path that Python took, and ms of one."""

    def tensors_only(*args: torch.Tensor) -> list[torch.Tensor]:
        return [t for t in tree_leaves(function(*args)) if isinstance(t, torch.Tensor)]

    graphs, ms = set(), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it bakes values, and is deprecated
        for call in calls:
            torch.manual_seed(0)
            args = tuple(_copies(call, False))
            start = time.perf_counter()
            made = torch.jit.trace(tensors_only, args, check_trace=False)
            ms += 1e3 * (time.perf_counter() - start)
            graphs.add(str(made.graph))
    return len(graphs), ms / len(calls)


def compare(
    title: str,
    program: Callable[..., Any],
    calls: Sequence[Call],
    *,
    parameters: Sequence[torch.nn.Parameter] = (),
    gradients: bool = True,
    tolerance: float = 1e-5,
) -> None:
    """Asserts that one trace serves all `calls` with eager's values, with each call as the first; prints the cost.

    Args:
        program: plain PyTorch code, with control flow on tensors.
        calls: its arguments, with data that takes different paths.
        parameters: what it uses beside the arguments; their gradients are compared too.

    With --json: one line for `run.py` in place of the table.
    """
    torch.set_num_threads(1)
    used = list(parameters)
    expected = [_run(program, call, used, gradients) for call in calls]
    for first in range(len(calls)):
        staged = tracehost.function(program)
        order = [*range(first, len(calls)), *range(first)]
        with assert_traces(staged, 1):
            for i in order:
                got = _run(staged, calls[i], used, gradients)
                torch.testing.assert_close(got, expected[i], rtol=tolerance, atol=tolerance)

    with torch.no_grad():
        for parameter in used:  # torch.jit.trace keeps them as constants
            parameter.requires_grad_(False)
        paths, ms_trace = _retraced(program, calls)
        staged = tracehost.function(program)
        start = time.perf_counter()
        staged(*_copies(calls[0], False))
        ms_first = 1e3 * (time.perf_counter() - start)
        row = {
            "title": title,
            "paths": paths,
            "eager": _ms(program, calls),
            "hit": _ms(staged, calls),
            "staged": ms_first,
            "retraced": ms_trace,
        }
    if "--json" in sys.argv:
        print(json.dumps(row))
    else:
        print(head())
        print(line(row))


def head() -> str:
    return (
        f"{'':34}{'traces':>8}{'eager':>10}{'hit':>10}{'trace':>10}{'if traced per path':>22}\n"
        f"{'':34}{'':8}{'ms':>10}{'ms':>10}{'ms':>10}{'traces':>12}{'ms each':>10}"
    )


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['title']:34}{1:8}{row['eager']:10.3f}{row['hit']:10.3f}{row['staged']:10.1f}"
        f"{row['paths']:12}{row['retraced']:10.1f}"
    )
