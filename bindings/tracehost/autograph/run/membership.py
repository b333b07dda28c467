"""`in` of what is traced: one bool of the graph, where Python would ask for a number or a truth."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any

from ..._tracehost import recording
from ..staging.state import as_number, is_number, is_read, is_tensor, is_traced
from .reductions import checked, decided, reads_are_rejected, truth

# More elements are compared by Python, which asks for the number.
_MOST = 256
_SETS = (dict, set, frozenset)
_CONTAINERS = (*_SETS, list, tuple)


def contains(value: Any, container: Any) -> Any:
    """What `value in container` is."""
    if reads_are_rejected():
        return value in container
    if is_tensor(container) and recording() and (is_traced(value) or is_number(value)):
        return as_number((value == container).any())
    if _is_short_sequence(container) and (is_tensor(value) or any(map(is_traced, container))):
        return _is_element(value, container)
    if not is_read(value):
        return value in container
    if type(container) is range:
        return _in_range(value, container)
    if not _is_plain(type(container)) or len(container) > _MOST:
        return value in container
    return _is_one_of(value, list(container))


def lacks(value: Any, container: Any) -> Any:
    """What `value not in container` is."""
    found = contains(value, container)
    return found == False if is_read(found) else not found  # noqa: E712 - `not` would need the value


def _is_plain(kind: type) -> bool:
    """Whether its `in` is that of a list, tuple, dict or set."""
    return any(
        issubclass(kind, base) and kind.__contains__ is base.__contains__ for base in _CONTAINERS
    )


def _is_short_sequence(container: Any) -> bool:
    kind = type(container)
    return issubclass(kind, (list, tuple)) and _is_plain(kind) and len(container) <= _MOST


def _is_element(value: Any, elements: list | tuple) -> Any:
    """In turn: an element that is the value decides, and so does one that equals it in Python."""
    if not all(map(_fits, elements)) or not _fits(value):
        return any(operator.is_(e, value) or checked(e == value) for e in elements)
    flags: list[Any] = []
    for element in elements:
        equal = element == value
        if operator.is_(element, value):  # the signature says which tensors are one
            return True
        if is_traced(equal):
            flags.append(truth(equal))
        elif equal:
            return True
    return decided(flags, True)


def _fits(value: Any) -> bool:
    """Whether a comparison with it gives one truth, and does not fail."""
    return (
        value.numel() == 1
        if is_tensor(value)
        else is_read(value) or is_number(value) or value is None
    )


def _is_one_of(value: Any, elements: Iterable[Any]) -> Any:
    equal = [value == e for e in elements if isinstance(e, (bool, int, float))]
    return functools.reduce(operator.or_, equal) if equal else False


def _in_range(value: Any, numbers: range) -> Any:
    if value.__class__ is float:
        return value in numbers
    low, high = (numbers[0], numbers[-1]) if numbers else (1, 0)
    if numbers.step < 0:
        low, high = high, low
    inside = (value >= low) & (value <= high)
    return inside & ((value - low) % abs(numbers.step) == 0)
