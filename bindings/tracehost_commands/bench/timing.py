"""How long calls take: contenders in turns, so that what disturbs one disturbs all of them.

    first call of each -> warm-up -> how many calls make a block -> rounds: a block of each, the order rotated

A block is as many calls as take a few milliseconds. Its time by its calls is one sample.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import tracehost

EAGER, OURS = "eager", "tracehost"
BLOCK_NS, MOST_CALLS = 5_000_000, 100_000  # what ends a block
LONGEST_NS = 10_000_000_000  # of the rounds of one signature, where their number was not asked for
ROUNDS, FEWEST_ROUNDS = 50, 5

Clock = Callable[[], float]


def nanoseconds() -> int:
    """As the clock of torch.utils.benchmark, whose import writes a warning where a CUDA toolkit has no GPU."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter_ns()


def quantile(samples: list[float], percent: float) -> float:
    return torch.tensor(samples, dtype=torch.float64).quantile(percent / 100).item()


@dataclass
class Contender:
    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...]

    first_ns: float = 0
    samples: list[float] = field(default_factory=list)  # nanoseconds a call, one for each round
    failure: Exception | None = None

    def time(self, calls: int, clock: Clock) -> float:
        """Nanoseconds of the calls. An error is kept as the failure, and raised by eager."""
        names = ", ".join(f"a{i}" for i in range(len(self.args)))
        given = {"given": (self.call, *self.args)}
        loop = timeit.Timer(f"f({names})", f"f, {names} = given", clock, given)
        with tracehost.stance("default" if self.name == OURS else "eager"):
            try:
                return loop.timeit(calls)
            except Exception as error:
                if self.name == EAGER:
                    raise
                self.failure = error
                return 0


def measure(some: list[Contender], clock: Clock, warmup: int = 10, rounds: int | None = None) -> None:  # fmt: skip
    """Fill in `first_ns` and `samples`, or `failure` of those whose calls raise."""
    for contender in some:
        contender.first_ns = contender.time(1, clock)
    blocks = {c.name: _calls_in_a_block(c, clock, warmup) for c in _running(some)}
    running, start = _running(some), clock()
    for i in range(rounds or ROUNDS):
        if rounds is None and i >= FEWEST_ROUNDS and clock() - start > LONGEST_NS:
            break
        turn = i % max(1, len(running))
        for contender in _running(running[turn:] + running[:turn]):
            calls = blocks[contender.name]
            contender.samples.append(contender.time(calls, clock) / calls)


def _running(some: list[Contender]) -> list[Contender]:
    return [contender for contender in some if contender.failure is None]


def _calls_in_a_block(contender: Contender, clock: Clock, warmup: int) -> int:
    contender.time(warmup, clock)
    calls = 1
    while calls < MOST_CALLS and contender.failure is None:
        taken = contender.time(calls, clock)
        if taken >= BLOCK_NS:
            break
        # Twice as many, or at once what the last ones suggest.
        calls = min(MOST_CALLS, max(calls * 2, int(calls * BLOCK_NS / max(taken, 1) * 0.7)))
    return calls
