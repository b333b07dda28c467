"""Shapes that vary: sentences of any length, a trace for each of them; `reduce_retracing` makes it two in all."""

import torch
import tracehost
from measure import Program, compare

torch.manual_seed(0)
sentences = [torch.rand(1, length, 16) for length in (3, 9, 4, 17, 5, 12, 8, 21, 6, 30)]


def attention(x):
    """Self-attention of [batch, length, 16]: [batch, length, 16]."""
    weights = torch.softmax(x @ x.transpose(1, 2) / 4, dim=-1)
    return (weights @ x).reshape(x.shape[0], x.shape[1], -1)


def program(f):
    return Program([f], [lambda x=x: f(x) for x in sentences])


compare(
    "Shapes that vary",
    before=program(tracehost.function(attention)),
    after=program(tracehost.function(attention, reduce_retracing=True)),
    traces=(10, 2),
)
