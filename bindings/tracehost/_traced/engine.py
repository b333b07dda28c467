"""Python's way to the autograd engine: in a trace, a backward pass becomes an op of the graph."""

from __future__ import annotations

from typing import Any

import torch

from .. import _tracehost


class _Engine(torch._C._ImperativeEngine):
    """backward(), torch.autograd.backward and torch.autograd.grad end in this engine's run_backward."""

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        return _tracehost.run_backward(super().run_backward, args, kwargs)


# Once, at import. Outside of a trace it is the engine that it was.
torch.autograd.Variable._execution_engine = _Engine()
