"""Tensors without data: how a function is traced from specs alone.

A size of None needs a number while the body runs. Which one matters only to a body that would not take
every size: so several choices are tried, one after the other, until the body runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from .._errors import Error, TraceError
from .._tracehost import TensorSpec, fake_tensor
from .._tracehost import needs_data as op_of

T = TypeVar("T")

# Large enough for a network that halves an image some times. Primes: a size that is a product or a
# multiple of another one's is not met by chance.
_PRIMES = (127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199)
_RANKS = range(5)


def _by_dimension(dimension: int, _count: int) -> int:
    """x[None, 3] and y[None, 3] agree."""
    return _PRIMES[dimension % len(_PRIMES)]


def _all_equal(_dimension: int, _count: int) -> int:
    return _PRIMES[0]


def _all_distinct(_dimension: int, count: int) -> int:
    return _PRIMES[count % len(_PRIMES)] + 100 * (count // len(_PRIMES))


def _divisible(dimension: int, _count: int) -> int:
    """A size that is split into heads, groups, pairs."""
    return 240 * (dimension + 1)


Choice = Callable[[int, int], int]


class Maker:
    """Makes what stands for the specs of one request."""

    def __init__(self, choice: Choice = _by_dimension, rank: int = 0) -> None:
        self._choice, self._rank = choice, rank
        self.open = 0  # sizes of None
        self.numbers: dict[int, str] = {}  # which None a number stands for
        self.any_rank = False

    def tensor(self, spec: TensorSpec) -> torch.Tensor:
        """A new tensor that fits `spec`."""
        shape = spec.shape
        if shape is None:
            self.any_rank = True
            shape = (None,) * self._rank
        sizes = []
        for dimension, size in enumerate(shape):
            if size is None:
                size = self._choice(dimension, self.open)
                self.open += 1
                self.numbers.setdefault(size, f"the None of dimension {dimension} of {spec!r}")
            sizes.append(size)
        made: Any = fake_tensor(sizes, spec.dtype, spec.device)
        made._tracehost_spec = spec  # for messages
        return made


def _further(first: Maker) -> Iterator[Maker]:
    """Other choices, after the first one."""
    for rank in _RANKS if first.any_rank else (0,):
        if rank:
            yield Maker(_by_dimension, rank)
        if first.open + (rank if first.any_rank else 0) > 1:
            yield Maker(_all_equal, rank)
            yield Maker(_all_distinct, rank)
        if first.open or rank:
            yield Maker(_divisible, rank)


def attempt(name: str, run: Callable[[Maker], T]) -> T:
    """Calls `run` with fake tensors, and again with other sizes where the body fails. Raises the first error."""
    first = Maker()
    try:
        return run(first)
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        if not first.open and not first.any_rank:
            raise _explained(name, error) from error.__cause__
        failure = error
        _note_numbers(error, first)
    except Error as error:
        _note_numbers(error, first)
        raise
    for maker in _further(first):
        try:
            return run(maker)
        except (RuntimeError, ValueError, IndexError, AssertionError):
            continue
    raise _explained(name, failure)


def _note_numbers(error: Exception, maker: Maker) -> None:
    """A number that the text has is in no line of the user's."""
    found = [int(one) for one in re.findall(r"\d+", str(error))]
    known = dict.fromkeys(one for one in found if one in maker.numbers)
    for number in known:
        error.add_note(
            f"{number} stands for {maker.numbers[number]}: a trace from specs needs a number."
        )


def needs_data(error: Exception) -> str | None:
    """The op that can't run without data, if that is what it says; None: another error."""
    return op_of(str(error)) or None if isinstance(error, RuntimeError) else None


def _explained(name: str, error: Exception) -> Exception:
    what = needs_data(error)
    if what is None:
        return error
    return TraceError(
        f"{name}: {what} does not run without data, so there is no trace from specs alone. Call the "
        "function once with example tensors, then ask for get_concrete_function() with the same tensors."
    )
