"""Tensors without data: how a function is traced from specs alone.

A size of None needs a number while the body runs. Which one matters only to a body that would not take
every size: so several choices are tried, one after the other, until the body runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from ._errors import TraceError
from ._tracehost import TensorSpec

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
        self._mode: Any = None
        self.open = 0  # sizes of None
        self.any_rank = False

    def mode(self) -> Any:
        """The FakeTensorMode; one for all, so that its tensors mix."""
        if self._mode is None:
            from torch._subclasses.fake_tensor import FakeTensorMode

            _quieten()
            self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        return self._mode

    def begin(self) -> None:
        """From here to end(), what torch logs of an op that fails on stand-ins is dropped."""
        self._before = getattr(_Attempts.running, "yes", False)
        _Attempts.running.yes = True

    def end(self) -> None:
        _Attempts.running.yes = self._before

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
            sizes.append(size)
        with torch.inference_mode(False), self.mode():
            made = torch.empty(sizes, dtype=spec.dtype, device=spec.device)
        made._tracehost_spec = spec  # for messages
        return made


def _further(first: Maker) -> Iterator[Maker]:
    """Other choices, after the first one."""
    for rank in _RANKS if first.any_rank else (0,):
        if rank or not first.any_rank:
            yield Maker(_by_dimension, rank)
        if first.open + (rank if first.any_rank else 0) > 1:
            yield Maker(_all_equal, rank)
            yield Maker(_all_distinct, rank)
        if first.open or rank:
            yield Maker(_divisible, rank)


def attempt(name: str, run: Callable[[Maker], T]) -> T:
    """`run` with stand-ins; where the body fails on their sizes, again with others. The first error."""
    first = Maker()
    try:
        return _quiet(run, first)
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        if not first.open and not first.any_rank:
            raise _explained(name, error) from error.__cause__
        failure = error
    for maker in _further(first):
        if (maker._choice, maker._rank) == (_by_dimension, 0):
            continue  # was the first
        try:
            return _quiet(run, maker)
        except (RuntimeError, ValueError, IndexError, AssertionError):
            continue
    raise _explained(name, failure)


class _Attempts(logging.Filter):
    """Drops what torch logs of an op that fails while a thread tries sizes: it becomes our error."""

    running = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self.running, "yes", False)


def _quieten() -> None:
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    if not any(isinstance(f, _Attempts) for f in logger.filters):
        logger.addFilter(_Attempts())


def _quiet(run: Callable[[Maker], T], maker: Maker) -> T:
    before = getattr(_Attempts.running, "yes", False)
    _Attempts.running.yes = True
    try:
        return run(maker)
    finally:
        _Attempts.running.yes = before


def needs_data(error: Exception) -> str | None:
    """The op that can't run without data, if that is what it says; None: another error."""
    from torch._subclasses import fake_tensor

    without_data = (
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.DataDependentOutputException,
        fake_tensor.UnsupportedOperatorException,
        fake_tensor.UnsupportedFakeTensorException,
    )
    if not isinstance(error, without_data):
        return None
    return str(getattr(error, "func", None) or getattr(error, "reason", None) or error)


def _explained(name: str, error: Exception) -> Exception:
    what = needs_data(error)
    if what is None:
        return error
    return TraceError(
        f"{name}: {what} does not run without data, so there is no trace from specs alone. Call the "
        "function once with example tensors instead; such a call's ConcreteFunction can then be had."
    )
