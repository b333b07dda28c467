"""New objects for each call. Compared by identity, each is another; `__tracehost_type__` returns the value that they
are compared by."""

import torch
import tracehost
from measure import Program, compare


class Settings:
    """Python's own comparison: by identity."""

    def __init__(self, power, note):
        self.power, self.note = power, note  # only `power` matters to the graph


class TypedSettings(Settings):
    def __tracehost_type__(self):
        return self.power


@tracehost.function
def before(x, settings):
    return x**settings.power


@tracehost.function
def after(x, settings):
    return x**settings.power


x = torch.linspace(0, 1, 32)
requests = [(2 if i % 4 else 3, f"request {i}") for i in range(16)]
kept = [Settings(*r) for r in requests]  # else only its death shows a new object

compare(
    "Objects compared by identity",
    before=Program([before], [lambda s=s: before(x, s) for s in kept]),
    after=Program([after], [lambda r=r: after(x, TypedSettings(*r)) for r in requests]),
    traces=(16, 2),
)
