"""How long calls take: contenders in turns, so that what disturbs one disturbs all of them.

    first call of each -> warm-up -> how many calls make a block -> rounds: a block of each, the order turned

A block is as many calls as take a few milliseconds; its time by its calls is one sample. The loop around the
calls is timeit's, made for their number of arguments, and costs each contender the same few nanoseconds.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

BLOCK_NS = 5_000_000  # a block takes at least this long ...
MOST_CALLS = 100_000  # ... or has so many calls
LONGEST_NS = 10_000_000_000  # of the rounds of one signature, where their number was not asked for
ROUNDS, FEWEST_ROUNDS = 50, 5

Clock = Callable[[], int]


@dataclass
class Contender:
    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    inside: Callable[[], AbstractContextManager[Any]] = nullcontext  # entered for its calls
    must_run: bool = False  # what its calls raise ends the measuring

    first_ns: int = 0
    samples: list[float] = field(default_factory=list)  # nanoseconds a call, one for each round
    failure: Exception | None = None

    def quantile(self, percent: int) -> float:
        if len(self.samples) == 1:
            return self.samples[0]
        return statistics.quantiles(self.samples, n=100, method="inclusive")[percent - 1]

    @property
    def median(self) -> float:
        return self.quantile(50)


@dataclass
class Plan:
    warmup: int = 10
    rounds: int | None = None  # None: at most ROUNDS, and not much longer than LONGEST_NS
    settle: Callable[[], Any] = lambda: None  # waits for what a device still does


def measure(contenders: list[Contender], plan: Plan, clock: Clock) -> None:
    """Fill in `first_ns` and `samples`, or `failure` of those whose calls raise."""
    loops = {}
    for contender in contenders:
        loop = loops[contender.name] = _loop(contender, plan.settle, clock)
        contender.first_ns = loop(1)
    running = [c for c in contenders if c.failure is None]
    blocks = {}
    for contender in running:
        if plan.warmup:
            loops[contender.name](plan.warmup)
        blocks[contender.name] = _calls_in_a_block(loops[contender.name])
    running = [c for c in running if c.failure is None]
    start = clock()
    for i in range(ROUNDS if plan.rounds is None else plan.rounds):
        enough = i >= FEWEST_ROUNDS and clock() - start > LONGEST_NS
        if plan.rounds is None and enough:
            break
        turn = i % max(1, len(running))
        for contender in running[turn:] + running[:turn]:
            calls = blocks[contender.name]
            if contender.failure is None:
                contender.samples.append(loops[contender.name](calls) / calls)


def _calls_in_a_block(loop: Callable[[int], int]) -> int:
    calls = 1
    while calls < MOST_CALLS:
        taken = loop(calls)
        if taken >= BLOCK_NS:
            break
        # Twice as many, or at once what the last ones suggest.
        calls = min(MOST_CALLS, max(calls * 2, int(calls * BLOCK_NS / max(taken, 1) * 0.7)))
    return calls


def _loop(contender: Contender, settle: Callable[[], Any], clock: Clock) -> Callable[[int], int]:
    """loop(n): nanoseconds of n calls. What they raise is kept as the contender's failure."""
    names = ", ".join(f"a{i}" for i in range(len(contender.args)))

    def settled() -> int:
        settle()
        return clock()

    given = {"given": (contender.call, *contender.args)}
    timer = timeit.Timer(f"f({names})", f"f, {names} = given", settled, given)

    def run(n: int) -> int:
        if contender.failure is not None:
            return 0
        with contender.inside():
            try:
                return timer.timeit(n)
            except Exception as error:
                if contender.must_run:
                    raise
                contender.failure = error
                return 0

    return run
