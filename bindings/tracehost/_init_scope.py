"""init_scope: a block of a traced body that is no part of the graph."""

from __future__ import annotations

from . import _tracehost


class init_scope:
    """An eager region: a block that runs eagerly, once, when the body is traced.

        @tracehost.function
        def forward(self, x):
            if self.weight is None:
                with tracehost.init_scope():
                    self.weight = torch.nn.Parameter(torch.randn(x.shape[-1], 10))
            return x @ self.weight

    Nothing in it is recorded, and it does not run again at hits. Grad mode, inference mode and autocast
    are those of the call, even if the body has switched them; `tracehost.inside_function()` is False. The
    tensors that it makes existed before the trace as far as the graph is concerned: they become captures.

    Where it stores one, on an object that the body uses, the next call finds another state: that trace
    serves its own call only, and the next call is traced once more, with what is there now. A tensor that
    is stored nowhere is kept by the graph.

    A traced tensor can't be used in it: it has another value at each call. Its shape, dtype and device
    can; a dynamic size becomes specialized.

    Outside of a trace it does nothing. It may be nested; the block ends where the outermost one does.
    """

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: list[int] = []

    def __enter__(self) -> None:
        self._blocks.append(_tracehost.enter_eager_region())

    def __exit__(self, *error: object) -> None:
        _tracehost.leave_eager_region(self._blocks.pop())


init_scope.__module__ = "tracehost"
