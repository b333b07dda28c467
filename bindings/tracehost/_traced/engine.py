"""Python's way to the autograd engine: in a trace, a backward pass becomes an op of the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._dynamo import eval_frame

from .. import _tracehost


class _Engine(torch._C._ImperativeEngine):
    """backward(), torch.autograd.backward and torch.autograd.grad end in this engine's run_backward."""

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        return _tracehost.run_backward(super().run_backward, args, kwargs)


# torch.compile takes the frame for the user's, since it is not torch's, and would warn about it.
eval_frame.set_code_exec_strategy(
    _Engine.run_backward.__code__,
    eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT),
)
# Once, at import. Outside of a trace it is the engine that it was.
torch.autograd.Variable._execution_engine = _Engine()
