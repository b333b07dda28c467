"""Python against tensor arguments: 1, 2 and a tensor are three traces; three tensors are one."""

import torch
import tracehost
from measure import Program, compare

before = tracehost.function(lambda x: x * 2 + 1)
after = tracehost.function(
    lambda x: x * 2 + 1, input_signature=[tracehost.TensorSpec([], torch.int64)]
)
values = [1, 2, torch.tensor(3)]

compare(
    "Python against tensor arguments",
    before=Program([before], [lambda v=v: torch.as_tensor(before(v)) for v in values]),
    after=Program([after], [lambda v=v: after(v) for v in values]),
    traces=(3, 1),
)
