"""Control flow on Python values: each value of `strength` takes a branch, and a trace; as a tensor it is one trace
whose `torch.where` chooses."""

import torch
import tracehost
from measure import Program, compare


@tracehost.function
def before(x, strength):
    return torch.relu(x) * strength if strength > 0.5 else x * strength


@tracehost.function
def after(x, strength):
    return torch.where(strength > 0.5, torch.relu(x), x) * strength


x = torch.linspace(-1, 1, 64)
strengths = [i / 16 for i in range(16)]

compare(
    "Control flow on Python values",
    before=Program([before], [lambda s=s: before(x, s) for s in strengths]),
    after=Program([after], [lambda s=s: after(x, torch.tensor(s)) for s in strengths]),
    traces=(16, 1),
)
