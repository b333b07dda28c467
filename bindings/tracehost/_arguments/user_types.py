"""What the methods of a user's trace type are given (`__tracehost_type__`, docs/guides/user-types.md)."""

from __future__ import annotations

from typing import Any

import torch


class TypeContext:
    """The second argument of `placeholder_value` and `cast`.

    value: the object that was passed to the function; in `placeholder_value` as `cast` made it.
    tensors: what `to_tensors` gave of it: inputs of the graph. Empty in `cast`.
    argument: the name of the parameter; None in `cast`, which is asked while a trace is looked for.
    """

    __slots__ = ("argument", "tensors", "value")

    def __init__(self, value: Any, tensors: tuple[torch.Tensor, ...], argument: str | None) -> None:
        self.value, self.tensors, self.argument = value, tensors, argument

    def __repr__(self) -> str:
        return f"TypeContext(argument={self.argument!r}, value={type(self.value).__name__})"
