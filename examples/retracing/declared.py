"""A declared signature: five batch sizes are five traces; `[None, 50]` is one, for these and all others."""

import torch
import tracehost
from measure import Program, compare

torch.manual_seed(0)
layer = torch.nn.Linear(50, 10)
batches = [torch.rand(n, 50) for n in (1, 8, 32, 17, 64)]


def scores(x):
    return torch.softmax(layer(x), dim=1)


before = tracehost.function(scores)
after = tracehost.function(scores, input_signature=[tracehost.TensorSpec([None, 50])])

compare(
    "A [None, 50] signature",
    before=Program([before], [lambda x=x: before(x) for x in batches]),
    after=Program([after], [lambda x=x: after(x) for x in batches]),
    traces=(5, 1),
)
