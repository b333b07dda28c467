"""Random programs with numbers: counters that they read and store, values that they read from tensors, conditions on
either, effects and draws before and after. Each call gives what eager gives, or raises with its line.

    cd tests && tracehost -m sweep.numbers --count 2000 [--seed 1]

A program that differs is printed; the exit status is 1.
"""

import argparse
import contextlib
import random
import sys
import textwrap
import warnings
from dataclasses import dataclass

import torch
import tracehost

CALLS = 9

STATE = """
class Thing:
    def __init__(self):
        self.n, self.m, self.rate, self.flag, self.best = 0, 5, 1.0, False, 8.0
        self.table, self.counts, self.pair, self.log = {"a": 1, "b": 0.5}, [0, 0, 0], (1, 2.0), []
        self.total = torch.zeros(3)
    def bump(self, by=1):
        self.n += by
    def keep(self, value):
        self.best = value
        self.table["a"] += 1
    def note(self, value):
        self.log.append(value)
thing = Thing()
"""

INTS = [
    "thing.n",
    "thing.m",
    "thing.table['a']",
    "thing.counts[1]",
    "thing.pair[0]",
    "k",
    "len(thing.log)",
]
READ_INTS = ["(x > 0).sum().item()", "x.argmax().item()"]
FLOATS = ["thing.rate", "thing.best", "thing.table['b']", "thing.pair[1]", "v"]
READ_FLOATS = ["x.sum().item()", "thing.total.max().item()"]
INT_SLOTS = [
    "thing.n",
    "thing.m",
    "thing.table['a']",
    "thing.counts[1]",
    "thing.counts[thing.m % 3]",
]
FLOAT_SLOTS = ["thing.rate", "thing.best", "thing.table['b']"]


class Writer:
    """Makes one body, a line a statement."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []

    def any_of(self, *choices: str) -> str:
        return self.random.choice(choices)

    def integer(self, depth: int = 0) -> str:
        if depth > 1 or self.random.random() < 0.4:
            return self.any_of(*INTS, *READ_INTS, str(self.random.randint(1, 4)))
        a, b = self.integer(depth + 1), self.integer(depth + 1)
        return self.any_of(
            f"({a} + {b})", f"({a} * {b} % 11)", f"max({a}, {b})", f"({a} // 2)", f"abs({a} - {b})"
        )

    def real(self, depth: int = 0) -> str:
        if depth > 1 or self.random.random() < 0.4:
            return self.any_of(*FLOATS, *READ_FLOATS, "0.5", "1.5")
        a, b = self.real(depth + 1), self.real(depth + 1)
        n = self.integer(depth + 1)
        return self.any_of(
            f"({a} + {b}) * 0.5", f"min({a}, {b})", f"{a} * 0.9", f"({n} / 4)", f"math.sin({a})"
        )

    def condition(self) -> str:
        return self.any_of(
            f"{self.integer()} % 3 == {self.random.randint(0, 2)}",
            f"{self.real()} < {self.real()}",
            f"{self.integer()} > {self.random.randint(1, 6)}",
            "x.sum() > 0",
            "not thing.flag",
            f"thing.n in (2, 4, {self.random.randint(5, 9)})",
            f"{self.integer()} > 2 and {self.real()} > 0",
            "torch.rand(()) < 0.5",
        )

    def block(self, depth: int, most: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, most)):
            lines += self.statement(depth + 1)
        return [f"    {line}" for line in lines]

    def statement(self, depth: int) -> list[str]:
        kind = self.random.random()
        if kind < 0.2:
            return [f"{self.any_of(*INT_SLOTS)} {self.any_of('=', '+=')} {self.integer()} % 97"]
        if kind < 0.35:
            return [f"{self.any_of(*FLOAT_SLOTS)} = {self.real()}"]
        if kind < 0.5:
            number = self.any_of(self.integer(), self.real())
            return [
                self.any_of(
                    f"x = x * 0.5 + {number} * 0.1",
                    f"x = x - {number}",
                    f"y = y + x * {number} * 0.01",
                )
            ]
        if kind < 0.58:
            return [
                self.any_of(
                    "thing.total.add_(x * 0.1)",
                    "thing.total = thing.total * 0.5 + x",
                    "x = x + torch.rand(3)",
                    "y = y + torch.rand(3) * 0.1",
                )
            ]
        if kind < 0.68:
            return [
                self.any_of(
                    "thing.bump()",
                    f"thing.bump({self.integer()} % 5)",
                    f"thing.keep({self.real()})",
                    "thing.note(x.argmax().item())",
                    "thing.flag = True",
                    f"thing.pair = ({self.integer()}, {self.real()})",
                )
            ]
        if kind < 0.76:
            return [self.any_of(f"k = {self.integer()}", f"v = {self.real()}")]
        if depth > 1:
            return ["y = y * 0.5 + x"]
        if kind < 0.95:
            lines = [f"if {self.condition()}:", *self.block(depth, 2)]
            if self.random.random() < 0.5:
                lines += ["else:", *self.block(depth, 2)]
            return lines
        return [f"for i in range({self.integer()} % 4):", "    y = y + x * 0.1 + i"]

    def program(self) -> str:
        lines = ["y, k, v = x * 0, 1, 0.25"]
        for _ in range(self.random.randint(2, 6)):
            lines += self.statement(0)
        lines.append(
            f"return {self.any_of('y + x', 'x * thing.n + y', 'y + thing.total', 'x, k, v')}"
        )
        return (
            "import math, torch\n"
            + STATE
            + "def body(x):\n"
            + textwrap.indent("\n".join(lines), "    ")
        )


def told(value):
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, tuple):
        return tuple(map(told, value))
    return type(value).__name__, value


def state_of(thing):
    return repr({key: told(value) for key, value in vars(thing).items()})


def run(text: str, options: dict | None):
    """What each call gives, and the Function; None: eager."""
    scope: dict = {"__name__": "sweep_program"}
    exec(compile(text, "program.py", "exec"), scope)
    f = scope["body"] if options is None else tracehost.function(scope["body"], **options)
    seen = []
    for i in range(CALLS):
        torch.manual_seed(i)
        x = (torch.arange(3.0) - 1 + i * 0.25) * (1 if i % 3 else -1)
        try:
            result = told(f(x))
        except tracehost.Error as error:
            return seen, str(error), f
        except Exception as error:  # noqa: BLE001 (compared by kind)
            result = type(error).__name__
        seen.append((result, state_of(scope["thing"]), torch.rand(()).item()))
    return seen, "", f


@dataclass
class Tally:
    right: int = 0
    rejected: int = 0
    wrong: int = 0
    calls: int = 0
    hits: int = 0


def check(seed: int, tally: Tally, show=print) -> None:
    text = Writer(seed).program()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _, _ = run(text, None)
        for options in ({}, {"autograph": False}):
            got, rejection, f = run(text, options)
            stats = f.stats()
            if (
                stats["live"] or rejection
            ):  # else each trace had a float of its call, and served no other
                tally.calls += stats["calls"]
                tally.hits += stats["hits"]
            differs = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), None)
            if differs is not None:
                tally.wrong += 1
                show(f"seed {seed} {options} differs at call {differs}:\n{text}\n")
                show(f"  eager  {expected[differs]}\n  traced {got[differs]}\n")
            elif rejection:
                tally.rejected += 1
                if "program.py:" not in rejection:
                    tally.wrong += 1
                    show(
                        f"seed {seed} {options} is rejected without its line: {rejection}\n{text}\n"
                    )
            else:
                tally.right += 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tally = Tally()
    with contextlib.suppress(KeyboardInterrupt):
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            check(seed, tally)
    print(
        f"{tally.right} right, {tally.rejected} rejected, {tally.wrong} wrong; "
        f"{tally.hits} of {tally.calls} calls were hits"
    )
    return 1 if tally.wrong or not tally.right else 0


if __name__ == "__main__":
    sys.exit(main())
