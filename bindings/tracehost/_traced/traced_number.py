"""A number that may differ at a later call, as a traced body sees it: read from a tensor, or a size."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any

import torch

from .. import _tracehost
from .shown_calls import is_shown, note_unknown_text

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SMALL = range(-(2**63), 2**63)
_dtype_of = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]
_CLASSES: dict[torch.dtype, type] = {torch.bool: bool, torch.int64: int, torch.float64: float}


class TracedNumber(torch.Tensor):
    """A bool, an int or a float in all that a body does with it; the graph has it as a scalar.

    Python's arithmetic and comparisons are recorded. Where the number itself is needed (C code, a key, a
    text), the graph checks a bool or an int, and a float is unsupported. A size is specialized
    there, and a comparison of sizes becomes a condition of the trace. After the trace it is the number
    that it was.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl
    # Library code asks whether a value is Iterable. torch's C code asks the other slots of a tensor, which stay.
    __iter__ = __reversed__ = None  # type: ignore[assignment]

    @property
    def __class__(self) -> type:  # isinstance(x.shape[0], int), as in eager code
        _tracehost._settle_kind(self)
        return _CLASSES[_dtype_of(self)]

    def __bool__(self) -> bool:
        if _tracehost._number_is_size(self):
            return bool(self != 0)
        if self.__class__ is bool:
            return bool(_needed(self, "bool()"))
        return bool(_needed(compute("truth", bool, self), "bool()"))

    def __int__(self) -> int:
        if self.__class__ is float:  # a later call may have another float, and the same int
            return int(_needed(compute("int", int, self), "int()"))
        return int(_needed(self, "int()"))

    def __float__(self) -> float:
        return _tracehost._number_float(self)

    def __complex__(self) -> complex:
        return complex(_needed(self, "complex()"))

    def __index__(self) -> int:
        if self.__class__ is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return _tracehost._number_index(self)

    def __hash__(self) -> int:
        return hash(_needed(self, "a dict, a set or hash()"))

    def __repr__(self) -> str:
        return str(_shown(self, ""))

    def __format__(self, spec: str) -> str:
        shown = _shown(self, spec)
        return shown if isinstance(shown, str) else format(shown, spec)

    def __pos__(self) -> Any:
        return +int(self) if self.__class__ is bool else self

    def __neg__(self) -> Any:
        return 0 - self if _tracehost._number_is_size(self) else compute("neg", operator.neg, self)

    def __abs__(self) -> Any:
        if _tracehost._number_is_size(self):
            return self if self >= 0 else -self
        return compute("abs", abs, self)

    def __invert__(self) -> Any:
        if _tracehost._number_is_size(self):
            return -self - 1
        return compute("invert", operator.invert, self)

    def __trunc__(self) -> Any:
        return self if _tracehost._number_is_size(self) else compute("int", math.trunc, self)

    def __floor__(self) -> Any:
        return self if _tracehost._number_is_size(self) else compute("floor", math.floor, self)

    def __ceil__(self) -> Any:
        return self if _tracehost._number_is_size(self) else compute("ceil", math.ceil, self)

    def __round__(self, digits: int | None = None) -> Any:
        if _tracehost._number_is_size(self):
            whole = digits is None or digits >= 0
            return self if whole else round(_needed(self, "round()"), digits)
        if digits is None:
            return compute("round", round, self)
        return compute("round_to", round, self, digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __copy__(self) -> TracedNumber:
        return self

    def __deepcopy__(self, memo: dict) -> TracedNumber:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__class__, (_needed(self, "pickling"),)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        import numpy

        return numpy.asarray(_needed(self, "a numpy array"), *args, **kwargs)

    def item(self) -> Any:
        return _needed(self, "item()") if _tracehost._number_is_size(self) else self

    tolist = item

    def is_integer(self) -> Any:
        return self == compute("floor", math.floor, self)

    @property
    def real(self) -> Any:
        return self

    @property
    def imag(self) -> Any:
        return 0.0 if self.__class__ is float else 0

    def conjugate(self) -> Any:
        return self

    def __getattribute__(self, name: str) -> Any:
        """What a number has; not what a tensor has."""
        if name == "__torch_function__":  # else torch's Python code takes a number for a tensor
            raise AttributeError(name)
        if name in _OWN or name.startswith("__"):
            return super().__getattribute__(name)
        kind = _CLASSES[_dtype_of(self)]
        if not hasattr(kind, name):
            raise AttributeError(
                f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        return getattr(_needed(self, f"its {name}"), name)


_OWN = frozenset(name for name in vars(TracedNumber) if not name.startswith("_"))


def _needed(value: Any, why: str) -> Any:
    """The number itself. A size is specialized. A bool or int that was read from a tensor gets a check."""
    return _tracehost._number_needed(value, why) if type(value) is TracedNumber else value


def _shown(value: TracedNumber, spec: str) -> Any:
    """For a text: of print() the number of this call. In a block that is not run, nothing can use the text but
    what the block raises: the graph makes it there. A text of a float is another one at each call."""
    if _tracehost._number_has_no_text(value):
        if _tracehost._number_is_unknown(value) and not is_shown():
            return _needed(value, "its text")
        note_unknown_text()
        return _tracehost._number_text(value, spec, value.__class__.__name__)
    if not _tracehost._number_is_live(value) or _tracehost._is_printing():
        return _tracehost._number_value(value)
    return of_this_call(value, "the text", "makes a text of a float")


def of_this_call(value: Any, why: str, what: str) -> Any:
    """The number itself. A later call has another float: with one, the trace serves its own call alone. Where the
    number has no value, in a staged block, the body continues without a trace. `what`: the body does with it, for
    the event."""
    if type(value) is not TracedNumber:
        return value
    read = _tracehost._number_is_read(value)
    if read and _tracehost._number_has_no_text(value):
        _tracehost._number_abandons(value, why)
    if not read or value.__class__ is not float or _tracehost._number_is_constant(value):
        return _needed(value, why)
    _tracehost.serves_once(f"{what} at {_tracehost.here()}")
    return _tracehost._number_value(value)


def compute(name: str, function: Callable, *operands: Any) -> Any:
    """`function(*operands)`, Python's own, which the graph has by the op `name` where it can."""
    if any(_tracehost._number_is_read(x) for x in operands if type(x) is TracedNumber):
        result = _tracehost._number_op(name, *operands)
        if result is not NotImplemented:
            return result
    why = f"{name.removeprefix('math_')}()"
    return function(*(of_this_call(x, why, f"computes {why} of a float") for x in operands))


def _is_size(value: Any) -> bool:
    """Whether the other operand of a size is a size, too, or no number of the graph."""
    if type(value) is TracedNumber:
        return not _tracehost._number_is_live(value) or _tracehost._number_is_size(value)
    return True


def _integer(value: Any) -> Any:
    """What a traced op takes beside a size, or None: a size, an int. Requires: _is_size(value)."""
    if type(value) is TracedNumber:
        if _tracehost._number_is_live(value):
            return value
        value = _tracehost._number_value(value)
    if type(value) is not int and isinstance(value, numbers.Integral):
        value = int(value)
    return value if type(value) is int and value in _SMALL else None


def _is_a_number(value: Any) -> bool:
    """The type of a traced one may not be settled yet, and need not be."""
    return type(value) is TracedNumber or isinstance(value, numbers.Number)


def _as_int(value: Any, *names: str) -> Any:
    """The int of an IntEnum's member, and of any other subclass that has these methods of int."""
    kind = type(value)
    if kind in (int, bool, float, TracedNumber) or not isinstance(value, int):
        return value
    own = all(getattr(kind, f"__{n}__") is getattr(int, f"__{n}__") for n in names)
    return int.__int__(value) if own else value


def _promotes(tensor: torch.Tensor) -> bool:
    """Whether an int and a 0-dim int64 tensor give other dtypes beside it."""
    dtype = tensor.dtype
    plain = dtype.is_floating_point or dtype.is_complex or dtype in (torch.bool, torch.int64)
    return tensor.dim() == 0 and not plain


def _operator(name: str, function: Callable, symbol: str, records: Callable) -> None:
    """Defines `number <op> other`, reflected and in place. `records(right)`: whether the algebra of sizes has it."""

    def of_size(size: TracedNumber, left: Any, right: Any, other: Any) -> Any:
        partner = _integer(other)
        if partner is None or not records(right):
            return None
        method = f"__{name}__" if left is size else f"__r{name}__"
        return _tracehost._as_size(getattr(torch.Tensor, method)(size, partner))

    def apply(number: TracedNumber, left: Any, right: Any, other: Any) -> Any:
        of_sizes = _tracehost._number_is_size(number) and _is_size(other)
        if isinstance(other, torch.Tensor) and type(other) is not TracedNumber:
            if name == "pow" and other is left and _tracehost._number_is_read(number):
                return torch.pow(other, _tracehost._number_given(number, 1, -1))
            if not (of_sizes and _promotes(other)) and not (name == "pow" and other is left):
                return NotImplemented
        elif type(other).__module__ in ("datetime", "numpy"):
            return function(_needed(left, symbol), _needed(right, symbol))
        elif not _is_a_number(other):
            return NotImplemented
        elif not of_sizes:
            return compute(name, function, left, right)
        elif (result := of_size(number, left, right, other)) is not None:
            return result
        return function(_needed(left, symbol), _needed(right, symbol))

    def forward(self: TracedNumber, other: Any) -> Any:
        other = _as_int(other, name, f"r{name}")
        return apply(self, self, other, other)

    def reflected(self: TracedNumber, other: Any) -> Any:
        other = _as_int(other, name, f"r{name}")
        return apply(self, other, self, other)

    setattr(TracedNumber, f"__{name}__", forward)
    setattr(TracedNumber, f"__i{name}__", forward)
    setattr(TracedNumber, f"__r{name}__", reflected)


def _comparison(name: str, symbol: str) -> None:
    function, traced = getattr(operator, name), getattr(torch.Tensor, f"__{name}__")

    def compare(self: TracedNumber, other: Any) -> Any:
        if not _is_a_number(other):  # a tensor, say
            return NotImplemented
        other = _as_int(other, *_COMPARISONS)
        if not (_tracehost._number_is_size(self) and _is_size(other)):
            return compute(name, function, self, other)
        if (partner := _integer(other)) is not None:
            return bool(traced(self, partner))
        return function(_needed(self, symbol), _needed(other, symbol))

    setattr(TracedNumber, f"__{name}__", compare)


def _define() -> None:
    def always(right: Any) -> bool:
        return True

    def never(right: Any) -> bool:
        return False

    def divides(right: Any) -> bool:
        return (_tracehost._number_value(right) if type(right) is TracedNumber else right) != 0

    def small_power(right: Any) -> bool:
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
    for name, symbol in _COMPARISONS.items():
        _comparison(name, symbol)


_define()
_tracehost._set_number_class(TracedNumber)
