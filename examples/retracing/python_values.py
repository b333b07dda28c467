"""Python values in place of tensors: a learning rate that decays is a new number, and a new trace, at every step."""

import torch
import tracehost
from measure import Program, compare

rates = [0.1 * 0.9**step for step in range(20)]


def descend(weights, gradient, rate):
    """One step of gradient descent, all of one shape: float32."""
    return weights - rate * gradient


def program(convert):
    f = tracehost.function(descend)
    weights, gradient = torch.ones(64), torch.linspace(-1, 1, 64)
    return Program([f], [lambda r=r: f(weights, gradient, convert(r)) for r in rates])


compare(
    "Python values for tensors",
    before=program(float),
    after=program(torch.tensor),
    traces=(20, 1),
)
