"""The size of a dimension that may differ at a later call, as a traced body sees it."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from typing import Any

import torch

from . import _tracehost

_SMALL = range(-(2**63), 2**63)


class TracedSize(torch.Tensor):
    """An int in all that a body does with a size; the graph has it as a 0-dim int64 tensor.

    Integer arithmetic is recorded, a comparison becomes a condition of the trace, and what needs
    the number itself (int(), range(), a float) makes the dimension exact. After the trace it is
    the number that it was.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def __class__(self) -> type:  # isinstance(x.shape[0], int), as in eager code
        return int

    def __bool__(self) -> bool:
        return self != 0

    def __int__(self) -> int:
        return _tracehost._pin_size(self, "int() of a size")

    def __float__(self) -> float:
        return float(_tracehost._pin_size(self, "float() of a size"))

    def __complex__(self) -> complex:
        return complex(_tracehost._pin_size(self, "complex() of a size"))

    def __index__(self) -> int:
        return _tracehost._size_index(self)

    def __hash__(self) -> int:
        return hash(_tracehost._pin_size(self, "a dict, a set or hash()"))

    def __repr__(self) -> str:
        if _tracehost._size_is_shown(self):  # by print(): at the trace alone
            return str(_tracehost._size_value(self))
        return str(_tracehost._pin_size(self, "the text of a size"))

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return format(_tracehost._pin_size(self, "the text of a size"), spec)

    def __pos__(self) -> TracedSize:
        return self

    def __neg__(self) -> Any:
        return 0 - self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __invert__(self) -> Any:
        return -self - 1

    def __trunc__(self) -> TracedSize:
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(_pinned(self, "round()"), digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __copy__(self) -> TracedSize:
        return self

    def __deepcopy__(self, memo: dict) -> TracedSize:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return int, (_tracehost._pin_size(self, "pickling"),)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        import numpy

        return numpy.asarray(_tracehost._pin_size(self, "a numpy array"), *args, **kwargs)

    def item(self) -> int:
        return _tracehost._pin_size(self, "item() of a size")

    tolist = item

    def bit_length(self) -> int:
        return _tracehost._pin_size(self, "bit_length()").bit_length()


def _pinned(value: Any, why: str) -> Any:
    return _tracehost._pin_size(value, why) if type(value) is TracedSize else value


def _integer(value: Any) -> Any:
    """What a traced op takes beside a size, or None: a size, an int."""
    if type(value) is TracedSize:
        return value if _tracehost._size_is_live(value) else _tracehost._size_value(value)
    if type(value) is not int and isinstance(value, numbers.Integral):
        value = int(value)
    return value if type(value) is int and value in _SMALL else None


def _is_zero(value: Any) -> bool:
    return (_tracehost._size_value(value) if type(value) is TracedSize else value) == 0


def _promotes(tensor: torch.Tensor) -> bool:
    """Whether an int and a 0-dim int64 tensor give other dtypes beside it."""
    dtype = tensor.dtype
    plain = dtype.is_floating_point or dtype.is_complex or dtype in (torch.bool, torch.int64)
    return tensor.dim() == 0 and not plain


def _operator(name: str, function: Callable, symbol: str, records: Callable) -> None:
    """Defines `size <op> other`, reflected and in place. `records(left, right)`: whether the graph
    can have it."""

    def compute(size: TracedSize, left: Any, right: Any, other: Any) -> Any:
        if isinstance(other, torch.Tensor) and type(other) is not TracedSize:
            if not _promotes(other) and not (name == "pow" and other is left):
                return NotImplemented
        elif not isinstance(other, numbers.Number):
            return NotImplemented
        elif _tracehost._size_is_live(size):
            partner = _integer(other)
            if partner is not None and records(left, right):
                method = f"__{name}__" if left is size else f"__r{name}__"
                return _tracehost._as_size(getattr(torch.Tensor, method)(size, partner))
        why = f"{symbol} of a size"
        return function(_pinned(left, why), _pinned(right, why))

    def forward(self: TracedSize, other: Any) -> Any:
        return compute(self, self, other, other)

    def reflected(self: TracedSize, other: Any) -> Any:
        return compute(self, other, self, other)

    setattr(TracedSize, f"__{name}__", forward)
    setattr(TracedSize, f"__i{name}__", forward)
    setattr(TracedSize, f"__r{name}__", reflected)


def _comparison(name: str, function: Callable, symbol: str) -> None:
    traced = getattr(torch.Tensor, f"__{name}__")

    def compare(self: TracedSize, other: Any) -> Any:
        if isinstance(other, torch.Tensor) and type(other) is not TracedSize:
            return NotImplemented
        if not isinstance(other, numbers.Number):
            return NotImplemented
        partner = _integer(other)
        if _tracehost._size_is_live(self) and partner is not None:
            return bool(traced(self, partner))
        return function(_pinned(self, f"{symbol} of a size"), _pinned(other, ""))

    setattr(TracedSize, f"__{name}__", compare)


def _define() -> None:
    def always(left: Any, right: Any) -> bool:
        return True

    def divides(left: Any, right: Any) -> bool:
        return not _is_zero(right)

    def never(left: Any, right: Any) -> bool:
        return False

    def small_power(left: Any, right: Any) -> bool:
        return type(right) is int and 0 <= right <= 3

    for name, function, symbol, records in (
        ("add", operator.add, "+", always),
        ("sub", operator.sub, "-", always),
        ("mul", operator.mul, "*", always),
        ("floordiv", operator.floordiv, "//", divides),
        ("mod", operator.mod, "%", divides),
        ("truediv", operator.truediv, "/", never),
        ("pow", operator.pow, "**", small_power),
        ("and", operator.and_, "&", never),
        ("or", operator.or_, "|", never),
        ("xor", operator.xor, "^", never),
        ("lshift", operator.lshift, "<<", never),
        ("rshift", operator.rshift, ">>", never),
    ):
        _operator(name, function, symbol, records)
    for name, function, symbol in (
        ("eq", operator.eq, "=="),
        ("ne", operator.ne, "!="),
        ("lt", operator.lt, "<"),
        ("le", operator.le, "<="),
        ("gt", operator.gt, ">"),
        ("ge", operator.ge, ">="),
    ):
        _comparison(name, function, symbol)


_define()
_tracehost._set_size_class(TracedSize)
