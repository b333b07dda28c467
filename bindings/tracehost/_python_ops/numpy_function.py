"""numpy_function: numpy code that a graph calls, at each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ..autograph.staging.state import is_tensor
from .py_function import Call, at_each_run


def numpy_function(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
    *,
    shape: Iterable[int | None] | Sequence[Any] | None = None,
) -> Any:
    """Call `func` with numpy arrays at every run, from the graph too.

    It is `py_function` for code that knows numpy: tensors become arrays, arrays become tensors. There are no
    gradients. Outside of a trace it is a plain call with the same checks.

    An array shares the memory of a tensor on the CPU, and can't be written: write to a copy of it. What
    `func` returns is copied.

    Args:
        func: gets an array for each tensor (of dimension 0 too), and numbers as they are.
        inp: a list or tuple of tensors and numbers, passed by place.
        Tout: dtype of the result, as TensorSpec takes it; a list or tuple: `func` returns as many; None or
            []: it returns nothing. A number is converted, an array of another dtype is an error.
        stateful: taken as tf does; also False keeps each call.
        name: in messages and in the graph; by default the function's.
        shape: of the result, None for a size that may differ, or a list of them for several results;
            checked at each run. See `py_function`.

    Returns:
        A tensor, a list of tensors, or None; on the device of the first tensor of `inp`, else on the CPU.

    Raises:
        TypeError: `func` is not callable, an input is no tensor or number, numpy has no such dtype.
        SignatureError: `func` returned something else than declared.
    """
    if isinstance(inp, (list, tuple)):
        inp = [x.detach() if is_tensor(x) else x for x in inp]
    return at_each_run(_ArrayCall(func, inp, Tout, shape, name))


class _ArrayCall(Call):
    """One numpy_function."""

    __slots__ = ()

    what = "numpy_function"

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        arrays = [self._array(t) for t in tensors[: self.count]]
        with torch.no_grad():
            results = super().__call__([*arrays, *tensors[self.count :]])
        return [t.to(tensors[0].device) for t in results] if self.count else results

    def _array(self, tensor: torch.Tensor) -> Any:
        try:
            array = tensor.detach().resolve_conj().resolve_neg().cpu().numpy()
        except TypeError:
            raise TypeError(
                f"numpy_function '{self.name}' is given a tensor of {tensor.dtype}, {tensor.layout}, of which "
                "numpy has no arrays. Convert it first, as in x.float()."
            ) from None
        array.flags.writeable = False
        return array

    def _checked(self, value: Any, i: int) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            value = value.detach().clone()
        return super()._checked(value, i)

    def _converted(self, value: Any, i: int) -> torch.Tensor:
        import numpy

        if isinstance(value, numpy.ndarray):
            # In order, of this machine's byte order, nobody else's.
            value = numpy.array(value, dtype=value.dtype.newbyteorder("="), order="C")
        return super()._converted(value, i)
