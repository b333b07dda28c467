"""Functions for the tests of archives, importable by name."""

import enum
from collections import namedtuple
from dataclasses import dataclass

import torch
import tracehost
from tracehost import TensorSpec

Point = namedtuple("Point", "x y")


class Mode(enum.Enum):
    PLUS = 1
    MINUS = 2


@dataclass
class Batch:
    image: torch.Tensor
    scale: float = 2.0


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.last = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))

    @tracehost.function
    def classify(self, x, temperature=2.0):
        return torch.softmax(self(x) / temperature, -1)


@tracehost.function(input_signature=[TensorSpec([None, 3]), TensorSpec([], torch.int64)])
def shift(x, n):
    return x + n, x.shape[0]


@tracehost.function
def scaled(x):
    """0.5 is a number: it does not make doubles."""
    return x.sum() * 0.5


@tracehost.function
def collatz(n):
    steps = torch.zeros((), dtype=torch.int64)
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps = steps + 1
    return steps


def plain(x):
    return x * 3
