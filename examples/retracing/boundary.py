"""Inputs converted and checked at the boundary: lists, numpy arrays and numbers come in; a declared signature
converts them to one kind of tensor, and rejects any other argument with a message."""

import numpy as np
import torch
import tracehost
from measure import Program, compare

inputs = [
    [1.0, 2.0, 3.0],
    [4.0, 5.0],
    np.array([6.0, 7.0, 8.0], dtype=np.float32),
    np.array([9.0], dtype=np.float32),
    torch.tensor([10.0, 11.0]),
]


def total(x):
    x = torch.as_tensor(x, dtype=torch.float32) if isinstance(x, list) else x
    return (x * x).sum()


before = tracehost.function(total)
after = tracehost.function(
    lambda x: (x * x).sum(), input_signature=[tracehost.TensorSpec([None], torch.float32)]
)

compare(
    "Conversion at the boundary",
    before=Program([before], [lambda x=x: before(x) for x in inputs]),
    after=Program([after], [lambda x=x: after(x) for x in inputs]),
    traces=(5, 1),
)

try:
    after(torch.ones(2, 2))
except tracehost.SignatureError as error:
    assert "argument 'x'" in str(error), error
else:
    raise AssertionError("a matrix is no vector")
