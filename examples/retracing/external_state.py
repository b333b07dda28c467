"""State outside of the function: a Python counter that the body reads is guarded, and each value is a trace; a tensor
that is updated in place is an input of the graph."""

import torch
import tracehost
from measure import Program, compare


class Schedule:
    def __init__(self, step):
        self.step = step


numbers, tensor = Schedule(1.0), Schedule(torch.tensor(1.0))


@tracehost.function
def before(x):
    return x / (1 + 0.1 * numbers.step)


@tracehost.function
def after(x):
    return x / (1 + 0.1 * tensor.step)


x = torch.ones(32)


def number_step(n):
    numbers.step = float(n)
    return before(x)


def tensor_step(n):
    tensor.step.fill_(n)
    return after(x)


compare(
    "External state",
    before=Program([before], [lambda n=n: number_step(n) for n in range(7)]),
    after=Program([after], [lambda n=n: tensor_step(n) for n in range(7)]),
    traces=(7, 1),
)
