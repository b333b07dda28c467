"""The list of small programs with control flow on tensors, and inputs for them."""

from dataclasses import dataclass

import torch


@dataclass
class Program:
    function: object
    inputs: list
    gradients: bool = True
    error: str | None = None
    traces: int = 1  # over all inputs; more where a Python value is among the arguments, or numbers are checked
    fails_as_python: bool = False  # some input raises in plain Python: so must the graph

    @property
    def name(self):
        return self.function.__name__


PROGRAMS: list[Program] = []


def program(*inputs, **options):
    """Each input is a tuple of arguments, or the only argument."""

    def keep(function):
        calls = [i if isinstance(i, tuple) else (i,) for i in inputs]
        PROGRAMS.append(Program(function, calls, **options))
        return function

    return keep


def t(*values):
    return torch.tensor(values)


def n(value):
    return torch.tensor(value)


P, N, BIG, ZERO = t(1.0, 2.0, 3.0), t(-1.0, -2.0, -3.0), t(10.0, 20.0, 30.0), t(0.0, 0.0, 0.0)
SIGNS = (P, N, BIG, ZERO)
COUNTS = tuple((P.clone(), n(k)) for k in (3, 0, 1, 6))
ROWS = tuple(torch.arange(2.0 * k).reshape(k, 2) + 1 for k in (3, 1, 5))
