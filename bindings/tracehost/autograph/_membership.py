"""`n in container` of a traced number: one bool of the graph, where Python would ask the number for its hash."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any

from ._state import is_read

# More elements are compared by Python, which asks for the number.
_MOST = 256
_SETS = (dict, set, frozenset)
_CONTAINERS = (*_SETS, list, tuple)


def contains(value: Any, container: Any) -> Any:
    """What `value in container` is."""
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
