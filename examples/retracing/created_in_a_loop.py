"""Functions created in a loop: each has a cache of its own, so each call is a first call."""

import torch
import tracehost
from measure import Program, compare

x = torch.linspace(-1, 1, 64)


def smooth(x):
    return torch.tanh(x) * 2 + 1


made = []


def anew():
    f = tracehost.function(smooth)
    made.append(f)
    return f(x)


once = tracehost.function(smooth)

compare(
    "Functions created in a loop",
    before=Program(made, [anew] * 10),
    after=Program([once], [lambda: once(x)] * 10),
    traces=(10, 1),
)
