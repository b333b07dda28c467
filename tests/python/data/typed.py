"""Types of decorated functions, as type checkers see them. An ignored error that is none is an error, too."""

from collections.abc import Callable
from typing import Any, assert_type

import torch
import tracehost
from torch import Tensor
from tracehost import ConcreteFunction, Function, TensorSpec


@tracehost.function
def scale(x: Tensor, factor: float = 2.0) -> Tensor:
    return x * factor


@tracehost.function(input_signature=[TensorSpec([None])], limit=8, validate=10)
def declared(x: Tensor) -> tuple[Tensor, int]:
    return x, x.shape[0]


class Net(torch.nn.Module):
    @tracehost.function
    def predict(self, x: Tensor, mode: str = "logits") -> Tensor:
        return x

    @tracehost.function
    @staticmethod
    def twice(x: Tensor) -> Tensor:
        return x * 2


x, net = torch.ones(3), Net()

assert_type(scale(x), Tensor)
assert_type(scale(x, factor=3.0), Tensor)
assert_type(declared(x), tuple[Tensor, int])
assert_type(net.predict(x, mode="logits"), Tensor)
assert_type(Net.predict(net, x), Tensor)
assert_type(Net.twice(x), Tensor)
assert_type(scale.tracing_count(), int)
assert_type(scale.get_concrete_function(x), ConcreteFunction)
assert_type(scale.python_function(x), Tensor)
assert_type(tracehost.function(lambda x: 1)(x), int)

kept: Callable[[Tensor], Tensor] = scale
annotated: "Function[..., Tensor]" = scale
of_module: Function[..., Any] = tracehost.function(net)

scale("x")  # type: ignore
scale(x, 2.0, 3.0)  # type: ignore
net.predict(x, mood="logits")  # type: ignore
tracehost.function(scale, limit="many")  # type: ignore
tracehost.function(scale, value_reads="trail")  # type: ignore
scale.trace_count()  # type: ignore
