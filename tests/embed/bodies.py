"""What the cases import."""

import torch
import tracehost


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
