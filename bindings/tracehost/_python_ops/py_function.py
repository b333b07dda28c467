"""py_function: Python code that a graph calls, at each run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .. import _tracehost
from .._arguments.dtypes import dtype_of, is_dtype, name_of
from .._arguments.tensor_spec import fits
from .._arguments.values import Unfit, as_tensor
from .._errors import SignatureError
from .._traced import closed_over
from .._traced.traced_number import TracedNumber
from .._tracehost import TensorSpec

Shape = Iterable["int | None"]
_NUMBERS = (bool, int, float, complex)
_MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "<required>"})()


def py_function(
    func: Callable[..., Any],
    inputs: Sequence[Any] = _MISSING,
    dtype: Any = _MISSING,
    *,
    shape: Shape | Sequence[Shape | None] | None = None,
    name: str | None = None,
    inp: Sequence[Any] = _MISSING,
    Tout: Any = _MISSING,
) -> Any:
    """Call `func(*inputs)` at every run, from the graph too.

    In a body that is traced it becomes one op of the graph, which is never removed, moved or merged. Each
    call of the Function, hit or not, calls `func` once, with real tensors, under the grad mode of that
    place. Outside of a trace it is a plain call with the same checks.

    What `func` does with torch ops has gradients, through its results to the inputs and to all else
    that it uses; what it does otherwise (numpy, `.item()`) has none. What it raises leaves the Function: at a
    hit no `try` of the body is there to catch it. It may run on several threads at once.

    A graph with one runs in this process only: it can't be saved.

    Args:
        func: any callable. The graph keeps it for as long as it lives itself. Tensors and numbers of the body that
            it reaches by a closure, a partial or attributes of an object are those of each call.
        inputs: a list or tuple of tensors and numbers, passed by place. A number is part of the trace; one
            that each call computes, and a size that may differ, is passed as the number of that call.
        dtype: of the result, as TensorSpec takes it; a list or tuple: `func` returns as many; None or []: it
            returns nothing. A number or a numpy array is converted, a tensor of another dtype is an error.
        shape: of the result, None for a size that may differ, or a list of them for several results.
            Checked at each run. Only with it can the body read sizes of the result (`y.shape[0]`), and
            can `get_concrete_function` trace the body without calling `func`.
        name: in messages and in the graph; by default the function's.
        inp, Tout: tf's names of `inputs` and `dtype`.

    Returns:
        A tensor, a list of tensors, or None.

    Raises:
        TypeError: `func` is not callable, an input is no tensor or number, `dtype` is none.
        SignatureError: `func` returned something else than declared.
    """
    inputs = _either("inputs", inputs, "inp", inp)
    return at_each_run(Call(func, inputs, _either("dtype", dtype, "Tout", Tout), shape, name))


def _either(ours: str, value: Any, tfs: str, other: Any) -> Any:
    if value is _MISSING and other is _MISSING:
        raise TypeError(f"py_function() missing a required argument: '{ours}'")
    if value is not _MISSING and other is not _MISSING:
        raise TypeError(f"py_function() got both '{ours}' and '{tfs}', which are the same")
    return other if value is _MISSING else value


def at_each_run(call: Call) -> Any:
    """Calls it now; in a trace it becomes an op, and its results those of the op."""
    if not _tracehost.inside_function():
        return call.structured(call(call.tensors))
    tensors, call.tensors = call.tensors, None
    if _tracehost.without_data():
        tensors = [_of_block(t) for t in tensors]
    call.where = _tracehost.here()
    declared = list(zip(call.dtypes, call.shapes))
    return call.structured(_tracehost.record_call(call, tensors, call.name, declared))


def _of_block(tensor: torch.Tensor) -> torch.Tensor:
    """An op that reads it: a loop asks those what it needs from outside, to be run."""
    if type(tensor) is TracedNumber:
        return torch.add(tensor, torch.zeros((), dtype=torch.int64))
    return torch.ops.aten.alias(tensor)


class Call:
    """One py_function: what the graph keeps of it."""

    __slots__ = (
        "count",
        "dtypes",
        "func",
        "made",
        "name",
        "numbers",
        "reached",
        "shapes",
        "single",
        "tensors",
        "where",
    )

    what = "py_function"  # to the user

    def __init__(self, func: Any, inputs: Any, dtype: Any, shape: Any, name: str | None) -> None:
        if not callable(func):
            raise TypeError(f"{self.what} takes a callable, got {func!r}")
        self.func = func
        self.name = name or getattr(func, "__name__", None) or type(func).__name__
        self.where: str | None = None
        self.single = is_dtype(dtype)
        self.dtypes = _dtypes(dtype, self.what)
        self.shapes = _shapes(shape, self.what, self.single, len(self.dtypes))
        self.tensors: list[torch.Tensor] | None = []
        # By place: a number; torch.Tensor for the next tensor; what makes a number of the next scalar.
        # None: all are tensors.
        self.numbers: list[Any] | None = []
        scalars: list[torch.Tensor] = []  # numbers of the graph; they follow the tensors
        if not isinstance(inputs, (list, tuple)):
            raise TypeError(f"{self.what} takes a list of inputs, got {type(inputs).__name__}")
        for i, value in enumerate(inputs):
            self._add(i, value, scalars)
        self.count = len(self.tensors)
        self.tensors += scalars
        # What `func` reaches of the call follows those.
        self.reached = len(self.tensors)
        reached: list[torch.Tensor] = []
        self.made: closed_over.Maker | None = None
        if _tracehost.recording():
            add = closed_over.adding(reached)
            self.made = _tracehost.unobserved(closed_over.maker, func, add)
        self.tensors += reached
        if all(kind is torch.Tensor for kind in self.numbers):
            self.numbers = None

    def _add(self, i: int, value: Any, scalars: list[torch.Tensor]) -> None:
        if type(value) is TracedNumber:
            inside = _tracehost.inside_function()
            if inside and _tracehost._number_is_size(value):
                scalars.append(value)
                self.numbers.append(int)
            elif inside and _tracehost._number_is_read(value):
                scalars.append(_tracehost._number_tensor(value))
                self.numbers.append(_item)
            else:
                self.numbers.append(value.__class__(value))
        elif isinstance(value, torch.Tensor):
            self.tensors.append(value)
            self.numbers.append(torch.Tensor)
        elif isinstance(value, _NUMBERS):
            self.numbers.append(value)
        else:
            raise TypeError(
                f"{self.what} takes tensors and numbers, input {i} is of type "
                f"{type(value).__name__}. Let the function reach it by itself: a closure, a partial."
            )

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        given = closed_over.Given(tensors[self.reached :])
        func = self.made(given) if self.made else self.func
        if self.numbers is None:
            result = func(*tensors[: self.reached])
        else:
            each, scalars = iter(tensors), iter(tensors[self.count :])
            arguments = (
                next(each) if v is torch.Tensor else v(next(scalars)) if v in (int, _item) else v
                for v in self.numbers
            )
            result = func(*arguments)
        if (changed := given.changed()) is not None:
            self._reject(
                f"changed a {type(changed).__name__} that holds a tensor or number of the call",
                "its dtype",
                "what it computes",
            )
        if self.single:
            return [self._checked(result, 0)]
        if not self.dtypes:
            if result is not None:
                self._reject(f"returned {_kind(result)}, but no result is declared", "None")
            return []
        if not isinstance(result, (list, tuple)):
            self._reject(f"returned {_kind(result)}, not the list of {len(self.dtypes)} declared")
        if len(result) != len(self.dtypes):
            self._reject(f"returned {len(result)} results, not the {len(self.dtypes)} declared")
        return [self._checked(value, i) for i, value in enumerate(result)]

    def structured(self, results: list[torch.Tensor]) -> Any:
        return results[0] if self.single else results or None

    def _checked(self, value: Any, i: int) -> torch.Tensor:
        dtype, shape = self.dtypes[i], self.shapes[i]
        if not isinstance(value, torch.Tensor):
            value = self._converted(value, i)
        elif value.dtype is not dtype:
            self._reject(
                f"returned a tensor of {value.dtype}{self._of(i)}, not the declared {dtype}",
                f"{value.dtype}",
                f"result.to({dtype})",
            )
        if not fits(value.shape, shape):
            self._reject(
                f"returned a tensor of shape {list(value.shape)}{self._of(i)}, not the declared "
                f"{shape}"
            )
        return value

    def _converted(self, value: Any, i: int) -> torch.Tensor:
        dtype = self.dtypes[i]
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            made = torch.as_tensor(value)
            if made.dtype is not dtype:
                name = name_of(dtype)
                self._reject(
                    f"returned an array of {value.dtype}{self._of(i)}, not the declared {dtype}",
                    f"{made.dtype}",
                    f"result.astype('{name}')" if hasattr(numpy, name) else "a tensor of it",
                )
            return made
        if not isinstance(value, _NUMBERS):
            self._reject(f"returned {_kind(value)}{self._of(i)}, not a tensor of {dtype}")
        try:
            return as_tensor(TensorSpec([], dtype), value)
        except Unfit as why:
            self._reject(f"returned {value!r}{self._of(i)}, not a tensor of {dtype}: {why}")

    def _of(self, i: int) -> str:
        return "" if self.single else f" as result {i}"

    def _reject(self, what: str, declare: str = "", convert: str = "") -> Any:
        where = self.where or _tracehost.here()
        remedy = f" Return {convert}, or declare {declare}." if convert else " Change one of them."
        raise SignatureError(f"{self.what} '{self.name}' at {where} {what}.{remedy}")


def _item(tensor: torch.Tensor) -> bool | int | float:
    return tensor.item()


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _dtypes(dtype: Any, what: str) -> list[torch.dtype]:
    if dtype is None:
        return []
    found = dtype if isinstance(dtype, (list, tuple)) else [dtype]
    return [dtype_of(each, f"{what}'s dtype", ", a list of them or None") for each in found]


def _shapes(shape: Any, what: str, single: bool, count: int) -> list[list[int | None] | None]:
    if shape is None:
        return [None] * count
    given = [shape] if single else list(shape)
    if len(given) != count:
        raise ValueError(f"{what} has {count} results, and {len(given)} shapes")
    return [None if one is None else [_size_of(size, what) for size in one] for one in given]


def _size_of(size: Any, what: str) -> int | None:
    if type(size) is TracedNumber:
        return _tracehost._specialize_size(size, f"a {what}'s shape")
    return None if size is None else int(size)
