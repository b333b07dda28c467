"""What a Function keeps alive, and what the garbage collector can undo."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
import tracehost


def recursive() -> Callable:
    @tracehost.function
    def f(x: torch.Tensor, n: int = 2) -> torch.Tensor:
        return f(x * 2, n - 1) if n else x

    return f


def holder() -> Callable:
    class Holder:
        k = 2.0

    h = Holder()

    @tracehost.function
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * h.k

    h.f = f
    return f


def own_method() -> Callable:
    class Trainer:
        def __init__(self) -> None:
            self.scale = 3.0
            self.step = tracehost.function(self.work)

        def work(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    return Trainer().step


def helper_that_knows_it() -> Callable:
    def helper(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def outer(x: torch.Tensor) -> torch.Tensor:
        return helper(x)

    helper.back = tracehost.function(outer)
    return helper.back


@pytest.mark.parametrize("make", [recursive, holder, own_method, helper_that_knows_it])
def test_a_cycle_through_its_own_specializations_is_collected(make: Callable) -> None:
    f = make()
    x = torch.ones(3)
    expected = f.python_function(x)
    assert torch.equal(f(x), expected)
    traces = f.tracing_count()
    assert torch.equal(f(x), expected)
    assert f.tracing_count() == traces
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_a_collection_while_it_lives_keeps_it_whole() -> None:
    f = recursive()
    x = torch.ones(3)
    f(x)
    for _ in range(3):
        gc.collect()
    assert torch.equal(f(x), x * 4)
    assert f.stats()["hits"] == 1
