"""What the tests of what a body reads share: a Function compared with its body, the rows of their tables,
objects to read from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import tracehost
from torch import nn

X = torch.arange(4.0)
BATCH = torch.arange(12.0).reshape(3, 4)


class Config:
    lr = 0.5

    def __init__(self, scale=2.0):
        self.scale = scale


class Model:
    factor = 2.0

    def __init__(self, bias=1.0):
        self.bias = bias
        self.config = Config()
        self.count = 0
        self.h = None
        self.unused = 0
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def act(self, x):
        return x * 2

    def body(self, x):
        return self.act(x) * self.factor * self.config.scale + self.bias

    run = tracehost.function(body)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.bn = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.drop(self.bn(self.fc(x))))


def same(f, body, *args):
    """Asserts that the Function gives what its body gives."""
    expected = body(*args)
    torch.testing.assert_close(f(*args), expected, rtol=0, atol=0)


def checked(body, function=None):
    """check(traces, *args) calls the body, and the Function of it, with args, or with X: both give the same,
    and the Function has so many traces in all."""
    f = function or tracehost.function(body)

    def check(traces, *args):
        same(f, body, *(args or (X,)))
        found = f.tracing_count()
        assert found == traces, f"{found} traces, where {traces} are expected"

    return check


@dataclass(frozen=True)
class Row:
    """`thing()` makes what a body reads, `body(thing)` makes the body. Each step is a change, to which the
    thing is given, and the traces in all once the body was called after it: one more than before it is a
    retrace, as many as before a hit. The first call, before all steps, is one trace."""

    thing: Callable[[], Any]
    body: Callable[[Any], Callable]
    steps: tuple[tuple[Callable[[Any], object], int], ...]


def row(thing: Callable, body: Callable, *steps: tuple) -> Row:
    return Row(thing, body, steps)


def put(**attributes) -> Callable[[Any], None]:
    """A change that sets these attributes of the thing."""

    def change(thing):
        for name, value in attributes.items():
            setattr(thing, name, value)

    return change


def take(row: Row):
    """The first call of a row, then step after step."""
    thing = row.thing()
    take_steps(row.steps, thing, checked(row.body(thing)))


def take_steps(steps, thing, check, *args):
    check(1, *args)
    for number, (change, traces) in enumerate(steps, 1):
        change(thing)
        try:
            check(traces, *args)
        except AssertionError as error:
            error.add_note(f"after step {number}")
            raise


def read_after_changes(make: Callable, body: Callable, *changes: tuple[Callable, int]) -> None:
    """`body(thing, x)` of what `make()` makes: one trace, then after each change so many in all, and a hit."""
    thing = make()
    check = checked(lambda x: body(thing, x))
    check(1)
    for change, traces in changes:
        change(thing)
        check(traces)
        check(traces)
