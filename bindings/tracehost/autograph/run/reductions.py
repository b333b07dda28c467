"""any, all, min, max and sorted of what is traced, as Python has them: values, types and exceptions.

What can't be one value of the graph (objects chosen by a traced key, tuples) is left to Python, whose comparisons
the graph checks.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..._traced.traced_number import compute
from ..._tracehost import (
    has_dynamic_sizes,
    may_check,
    recording,
    row_count,
    select,
    sizes_now,
    traces_reads,
)
from ..staging.branches import stage
from ..staging.conditions import and_test, if_exp, nothing, or_test
from ..staging.iterables import Staged
from ..staging.state import as_number, as_tensor, is_number, is_read, is_tensor, is_traced
from ..staging.where import line
from .asking import Asked
from .numbers import tensor_of_numbers

# Each element of a generator is asked for in a branch of the element before.
_MOST_NESTED = 32
# They compute nothing when they are iterated.
_CONTAINERS = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    *(type(x) for x in ({}.keys(), {}.values(), {}.items())),
)
_ORDERED = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _is_one_element(value: Any) -> bool:
    return is_read(value) or math.prod(sizes_now(value)) == 1


def _resizes(tensor: torch.Tensor) -> bool:
    return has_dynamic_sizes() or row_count(tensor) is not None


def _has_rows_of_one(tensor: torch.Tensor) -> bool:
    """Whether each row is one value, at any call."""
    if tensor.dim() < 2:
        return tensor.dim() == 1
    return math.prod(sizes_now(tensor)[1:]) == 1 and not _resizes(tensor)


# ---- any and all


def checked(value: Any) -> bool:
    """bool(value), which the graph checks of a traced one. Of several elements it fails as in eager Python."""
    if is_tensor(value) and not _is_one_element(value):
        how = "more than one value" if math.prod(sizes_now(value)) else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {how} is ambiguous")
    return bool(value)


def truth(value: Any) -> Any:
    """bool(value), of a traced one a traced bool."""
    if is_read(value):
        return value if value.__class__ is bool else compute("truth", bool, value)
    if is_tensor(value):
        value = value.reshape(())
        return as_number(value if value.dtype == torch.bool else value != 0)
    return bool(value)


def reads_are_rejected() -> bool:
    """Whether the user wants no number of the graph (value_reads="error")."""
    return recording() and not traces_reads()


def any_(values: Any) -> Any:
    return any(_plain(values)) if reads_are_rejected() else _decide(values, True)


def all_(values: Any) -> Any:
    return all(_plain(values)) if reads_are_rejected() else _decide(values, False)


def _plain(values: Any) -> Any:
    return values.values if isinstance(values, Asked) else values


def _decide(values: Any, deciding: bool) -> Any:
    """The result is `deciding` where a value's truth is."""
    if is_tensor(values) and _has_rows_of_one(values):
        flags = values.reshape(-1) != 0
        return as_number(flags.any() if deciding else flags.all())
    if isinstance(values, Asked):
        return _decide_in_turn(_Unnamed(values.values), deciding, 0)
    if not isinstance(values, _CONTAINERS):
        return _decide_in_turn(_iterator(values), deciding, _MOST_NESTED)
    if not all(_is_one_element(v) for v in values if is_traced(v)):
        return _decide_in_turn(_iterator(values), deciding, _MOST_NESTED)
    flags: list[Any] = []
    for value in values:
        if is_traced(value):
            flags.append(truth(value))
        elif bool(value) is deciding:
            return deciding
    return decided(flags, deciding)


def decided(flags: list[Any], deciding: bool) -> Any:
    """Of traced bools."""
    return functools.reduce(operator.or_ if deciding else operator.and_, flags, not deciding)


def _iterator(values: Any) -> Iterator[Any]:
    found = iter(values)
    return found if found is values else _Unnamed(found)


class _Unnamed:
    """An iterator that nothing of the user's sees: how far it is does not matter (`staging/snapshots.py`)."""

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._values)


def _decide_in_turn(values: Iterator[Any], deciding: bool, depth: int) -> Any:
    """Asks for no more values than Python does. In a branch of the graph, up to a depth; then it has to know."""
    for value in values:
        if is_traced(value) and _is_one_element(value) and depth < _MOST_NESTED:
            test = or_test if deciding else and_test
            return truth(test(value, lambda: _decide_in_turn(values, deciding, depth + 1)))
        if checked(value) is deciding:
            return deciding
    return not deciding


# ---- min and max


def extreme(name: str, call: Callable[[Any], Any]) -> Callable[..., Any]:
    """`call`: what is called in place of a key function."""
    plain: Any = getattr(builtins, name)
    better = operator.gt if name == "max" else operator.lt

    def find(*args: Any, key: Any = None, **options: Any) -> Any:
        one = len(args) == 1
        if not recording() or not args or options.keys() - {"default"}:
            return plain(*args, key=call(key), **options)
        if options and not one:
            return plain(0, 0, **options)  # Python's own error
        if one and is_tensor(args[0]) and key is None and _is_vector(args[0]):
            return _extreme_row(args[0], name == "max")
        values = _listed(args[0]) if one else list(args)
        if not values or isinstance(values[0], Staged):
            return plain(values, **options) if one else plain(*args, **options)
        keys = values if key is None else [call(key)(value) for value in values]
        if key is None and any(map(is_read, values)) and not any(map(is_tensor, values)):
            return functools.reduce(lambda a, b: compute(name, plain, a, b), values)
        if not any(map(is_traced, keys)) or not (key is None or _are_alike(values)):
            return values[plain(range(len(values)), key=keys.__getitem__)]
        return _extreme_in_turn(values, keys, better)

    return find


def _listed(values: Any) -> list[Any]:
    """The values, all of which Python asks for, too."""
    return list(values.unbind(0)) if is_tensor(values) and values.dim() else list(values)


def _extreme_in_turn(values: list[Any], keys: list[Any], better: Callable[[Any, Any], Any]) -> Any:
    same = values is keys
    result, best = values[0], keys[0]
    for value, key in zip(values[1:], keys[1:]):
        found = better(key, best)
        differ = is_tensor(value) and is_tensor(result) and not _are_alike([value, result])
        if not is_traced(found) or not _is_one_element(found) or (differ and may_check()):
            result, best = (value, key) if checked(found) else (result, best)
        elif same:
            result = best = if_exp(found, lambda v=value: v, lambda r=result: r)
        else:
            now, before = (value, key), (result, best)
            result, best = if_exp(found, lambda n=now: n, lambda b=before: b)
    return result


def _is_vector(tensor: torch.Tensor) -> bool:
    """Rows of one value each, that have an order."""
    ordered = tensor.dtype in _ORDERED or tensor.dtype.is_floating_point
    return ordered and _has_rows_of_one(tensor) and sizes_now(tensor)[0] > 0


def _extreme_row(tensor: torch.Tensor, largest: bool) -> torch.Tensor:
    """The first one that Python would keep: a comparison with NaN is false."""
    keys = tensor.detach().reshape(-1)
    if keys.dtype == torch.bool:
        keys = keys.to(torch.uint8)
    missing = torch.isnan(keys)
    if keys.dtype.is_floating_point:
        keys = torch.where(missing, -math.inf if largest else math.inf, keys)
    best = keys.max() if largest else keys.min()
    before = ((keys == best).cumsum(0) == 0).sum()
    return select(tensor, 0, torch.where(missing[0], 0, before))


def _are_alike(values: list[Any]) -> bool:
    """Whether each may stand in another's place: tensors, or numbers of one type."""
    first = values[0]
    if is_tensor(first):
        return all(
            is_tensor(v)
            and (v.dtype, v.device) == (first.dtype, first.device)
            and sizes_now(v) == sizes_now(first)
            for v in values
        )
    return all((is_number(v) or is_read(v)) and v.__class__ is first.__class__ for v in values)


# ---- sorted


def sorted_(values: Any, call: Callable[[Any], Any], key: Any = None, reverse: Any = False) -> Any:
    whole = values if is_tensor(values) else None
    values = _listed(values)
    keys = values if key is None else [call(key)(value) for value in values]
    # The tensors of a list stay the ones they are: no op chooses among objects.
    chosen = whole is None and any(map(is_tensor, values)) and may_check()
    column = None if reads_are_rejected() or chosen else _column(keys, values)
    if column is None:
        if len(keys) > 1 and all(map(is_tensor, keys)):
            checked(keys[1] < keys[0])  # the first question of Python's sort, and its error
        order = builtins.sorted(range(len(values)), key=keys.__getitem__, reverse=reverse)
        return [values[i] for i in order]
    order = torch.sort(column.detach(), stable=True, descending=bool(reverse)).indices
    if not is_tensor(values[0]):
        parts = tensor_of_numbers(values).index_select(0, order).unbind(0)
        return [as_number(part) for part in parts]
    if whole is not None:
        return [select(whole, 0, i) for i in order.unbind(0)]
    return list(torch.stack(values).index_select(0, order).unbind(0))


def _column(keys: list[Any], values: list[Any]) -> torch.Tensor | None:
    """The keys as a tensor that has the order of Python; None: Python has to sort."""
    if not any(map(is_traced, keys)) or not (_are_alike(keys) and _are_alike(values)):
        return None
    if not is_tensor(keys[0]):
        column = tensor_of_numbers(keys)
    elif all(map(_is_one_element, keys)):
        column = torch.stack([as_tensor(k).reshape(()) for k in keys])
    else:
        return None
    if column.dtype in _ORDERED:
        return column
    if not column.dtype.is_floating_point:
        return None
    return column if _has_an_order(column) else None


def _has_an_order(column: torch.Tensor) -> bool:
    """Whether no key is NaN: with one, the order that Python finds depends on how it sorts."""
    missing = torch.isnan(column).any()
    if may_check():
        return not bool(as_number(missing))
    where = line()

    def fail() -> None:
        raise ValueError(
            f"sorted() at {where} has a NaN among its keys, in a branch or loop that the trace did not run: then there is no order. "
            "Sort outside of the block, or give a key that is never NaN."
        )

    stage(missing, (fail, nothing), tuple, nothing, (), "sorted()", (nothing,))
    return True
