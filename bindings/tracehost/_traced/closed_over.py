"""Tensors and numbers of this call that a value reaches by itself: a closure, a partial, attributes of an object.

A call that each run of the graph makes again gets them as inputs. It is made with a copy of the value, which has
those of that run.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, MethodType
from typing import Any

import torch

from .. import _tracehost
from .traced_number import TracedNumber

_DEEPEST = 6
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Given:
    """The inputs of a run, and the copies that were made for it."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.inputs = inputs
        self.copies: list[tuple[Any, list[Any], Parts]] = []

    def changed(self) -> Any:
        """A copy that the call changed, which the program would not see; None: there is none."""
        for made, before, parts in self.copies:
            now = parts(made)
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before)):
                return made
        return None


Maker = Callable[[Given], Any]
Parts = Callable[[Any], list[Any]]
Add = Callable[[Any], "Maker | None"]


def input_of(number: TracedNumber) -> torch.Tensor | None:
    """The tensor that gives a number to each run. None: it is the number that it was."""
    if _tracehost._number_is_size(number):
        return number
    return _tracehost._number_tensor(number) if _tracehost._number_is_read(number) else None


def number_of(tensor: torch.Tensor) -> bool | int | float:
    """The number of a run that input_of() gave."""
    return int(tensor) if type(tensor) is TracedNumber else tensor.item()


def adding(inputs: list[torch.Tensor]) -> Add:
    """What adds a tensor or a number to the inputs of a call."""

    def add(value: Any) -> Maker | None:
        is_number = type(value) is TracedNumber
        given = input_of(value) if is_number else value
        if given is None:
            constant = _tracehost._number_value(value)
            return lambda _: constant
        at = len(inputs)
        inputs.append(given)
        if is_number:
            return lambda given: number_of(given.inputs[at])
        return lambda given: given.inputs[at]

    return add


def maker(
    value: Any, add: Add, seen: dict[int, Maker | None] | None = None, depth: int = 0
) -> Maker | None:
    """What makes the value of each run; None: it reaches nothing of this call.

    `add` takes a tensor or a number as an input, and gives what it is at a run. `seen`: of the objects met.
    """
    kind = type(value)
    if kind is TracedNumber or isinstance(value, torch.Tensor):
        return add(value)
    seen = {} if seen is None else seen
    if kind in _PLAIN or depth > _DEEPEST:
        return None
    if id(value) in seen:
        return seen[id(value)]
    if _tracehost.reaches(value):
        return None
    if kind in _KINDS:
        parts, rebuilt = _KINDS[kind]
    elif isinstance(value, (type, torch.nn.Module)) or not _has_attributes(value):
        return None
    else:
        parts, rebuilt = _attributes, _object
    seen[id(value)] = None
    now = parts(value)
    makers = [maker(part, add, seen, depth + 1) for part in now]
    if not any(makers):
        return None

    def make(given: Given) -> Any:
        own = [m(given) if m else part for m, part in zip(makers, now)]
        made = rebuilt(value, own)
        if isinstance(made, (list, dict)) or parts is _attributes:
            given.copies.append((made, own, parts))
        return made

    seen[id(value)] = make
    return make


def _has_attributes(value: Any) -> bool:
    return type(getattr(value, "__dict__", None)) is dict


def _attributes(value: Any) -> list[Any]:
    return list(vars(value).values())


def _content(cell: CellType) -> list[Any]:
    """Empty: so is the cell, or it is a state's that each run reads itself."""
    try:
        value = cell.cell_contents
    except ValueError:
        return []
    is_state = isinstance(value, torch.Tensor) and _tracehost.reaches(value)
    return [] if is_state and _is_from_outside(value) else [value]


def _is_from_outside(value: Any) -> bool:
    """Whether the body has it as a variable of a function around it, and its own functions have not."""
    frame, stop = sys._getframe(1), _tracehost.outer_frame()
    outside = False
    while frame is not None and frame is not stop:
        code, variables = frame.f_code, frame.f_locals
        if any(variables.get(name) is value for name in code.co_cellvars):
            return False
        outside |= any(variables.get(name) is value for name in code.co_freevars)
        frame = frame.f_back
    return outside


def _of_function(function: FunctionType) -> list[Any]:
    keywords = function.__kwdefaults__ or {}
    return [*(function.__closure__ or ()), *(function.__defaults__ or ()), *keywords.values()]


def _function(function: FunctionType, parts: list[Any]) -> FunctionType:
    each = iter(parts)
    cells = tuple(next(each) for _ in function.__closure__ or ())
    defaults = tuple(next(each) for _ in function.__defaults__ or ())
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        defaults or None,
        cells or None,
    )
    made.__kwdefaults__ = dict(zip(function.__kwdefaults__ or {}, each)) or None
    vars(made).update(vars(function))
    return made


def _partial(value: functools.partial, parts: list[Any]) -> functools.partial:
    positional = 1 + len(value.args)
    return functools.partial(
        *parts[:positional], **dict(zip(value.keywords, parts[positional:], strict=True))
    )


def _object(value: Any, parts: list[Any]) -> Any:
    made = copy.copy(value)
    vars(made).update(zip(vars(value), parts))
    return made


_KINDS: dict[type, tuple[Parts, Callable[[Any, list[Any]], Any]]] = {
    FunctionType: (_of_function, _function),
    CellType: (_content, lambda _, parts: CellType(*parts)),
    MethodType: (lambda m: [m.__func__, m.__self__], lambda _, parts: MethodType(*parts)),
    functools.partial: (lambda p: [p.func, *p.args, *p.keywords.values()], _partial),
    tuple: (list, lambda _, parts: tuple(parts)),
    list: (list, lambda _, parts: parts[:]),
    dict: (lambda d: list(d.values()), lambda d, parts: dict(zip(d, parts))),
}
