"""Dtypes that vary: data comes as float64, float16 or integers; converted at the boundary it is one trace."""

import torch
import tracehost
from measure import Program, compare

kinds = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8)
batches = [torch.arange(12).reshape(3, 4).to(kind) for kind in kinds]


def centred(x):
    """x less its mean, of [n, m], any dtype: float32."""
    x = x.to(torch.float32)
    return x - x.mean()


before = tracehost.function(centred)
after = tracehost.function(centred)

compare(
    "Dtypes that vary",
    before=Program([before], [lambda x=x: before(x) for x in batches]),
    after=Program([after], [lambda x=x: after(x.to(torch.float32)) for x in batches]),
    traces=(5, 1),
)
