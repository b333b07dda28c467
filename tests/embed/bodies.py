"""What the cases import."""

import enum
import typing
from dataclasses import dataclass

import torch
import tracehost
from tracehost import TensorSpec


@tracehost.function
def scale(x, by=2):
    return x * by


class Model:
    def __init__(self):
        self.weight = torch.ones(3)
        self.gain = 1

    @tracehost.function
    def step(self, x):
        return x * self.weight * self.gain


model = Model()


def plain(x):
    return x


@tracehost.function
def fill_weight(value):
    model.weight.fill_(value)


@tracehost.function
def set_gain(value):
    model.gain = value


@tracehost.function
def pack(batch, parts):
    total = batch["image"] * batch["scale"]
    for part in parts:
        total = total + part
    return {"sum": total, "name": "packed", "count": len(parts), "both": tuple(parts)}


@tracehost.function
def fails(x):
    raise ValueError("no such thing")


@tracehost.function
def reads(x):
    return x * x.sum().numpy().tolist()


@tracehost.function
def calls_python(x):
    return tracehost.py_function(lambda t: t + 1, [x], torch.float32)


@tracehost.function(input_signature=[TensorSpec([None, 4]), {"scale": TensorSpec([])}])
def declared(x, options, by=2):
    return x * options["scale"] * by


class BadRoot(Exception):
    pass


@tracehost.function
def root(x):
    if x.sum() < 0:
        raise BadRoot("no real root")
    return x.sqrt()


@tracehost.function
def pick(table, index):
    return table[index]


class Mode(enum.Enum):
    PLUS = 1
    MINUS = 2


@dataclass
class Point:
    x: torch.Tensor
    scale: float = 1.0


class Pair(typing.NamedTuple):
    left: Point
    right: "Point | None"


@tracehost.function
def measure(pair: Pair, points: list[Point], mode: Mode = Mode.PLUS):
    total = pair.left.x * pair.left.scale
    for point in points:
        total = total + point.x * point.scale
    if pair.right is not None:
        total = total + pair.right.x
    return total if mode is Mode.PLUS else -total


@tracehost.function
def prints(x):
    print("traced for", tuple(x.shape))
    return x + 1


@tracehost.function
def count(turns, last):
    while turns < last:
        turns.add_(1)
    return turns * 2


@tracehost.function(limit=4)
def evicting(x, by):
    return x * by
