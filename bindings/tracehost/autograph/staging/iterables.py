"""What a staged for goes over: range, enumerate and zip of tensors; and len of them. And whether a value is staged."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
from typing import Any

import torch

from ..._tracehost import recording, row_count, select, sizes_now
from .state import as_number, as_tensor, is_tensor, is_traced
from .where import line, reject, reject_here


class Staged:
    """An iterable whose number of items a graph finds out."""

    def count(self) -> Any:
        """How many: an int, or a 0-dim int64 tensor."""
        raise NotImplementedError

    def item(self, index: torch.Tensor) -> Any:
        """The item of a traced index; in a loop's body."""
        raise NotImplementedError

    def first(self, index: int) -> Any:
        """The item of a known index, where count() is an int; outside of the loop."""
        return next(itertools.islice(self.plain(), index, None))

    def plain(self) -> Any:
        """What Python iterates in its place."""
        raise NotImplementedError

    def __iter__(self) -> Any:
        """Not by a staged for: rows are unrolled, and a traced range is a read of its end."""
        return iter(self.plain())


def truth_of(value: Any) -> Any:
    """What is asked for the truth of `value`: for a list of the graph, and others, whether it has an item."""
    return len_(value) != 0 if isinstance(value, Staged) else value


def is_staged(value: Any) -> bool:
    """Whether the value is a tensor (or a range, enumerate, zip over one) of this thread's trace."""
    return (is_traced(value) or isinstance(value, Staged)) and recording()


class Range(Staged):
    """range() of which an argument is a traced tensor, or that a graph is to run."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = start, stop, step
        self.dtype = torch.int64  # of the items

    def __repr__(self) -> str:
        return "range(...)"

    def __len__(self) -> int:
        return len(self.plain())

    def count(self) -> Any:
        if not any(is_tensor(x) for x in (self.start, self.stop, self.step)):
            return len(self)
        start, stop, step = self.start, self.stop, self.step
        if not is_tensor(step):
            if step == 0:
                raise ValueError("range() arg 3 must not be zero")
            rest = stop - start + (step - (1 if step > 0 else -1))
        else:
            rest = stop - start + (step - torch.sign(step))
        return torch.clamp(torch.div(rest, step, rounding_mode="floor"), min=0).to(torch.int64)

    def item(self, index: torch.Tensor) -> torch.Tensor:
        plain = not is_tensor(self.start) and self.start == 0 and not is_tensor(self.step)
        item = index if plain and self.step == 1 else self.start + index * self.step
        return as_number(item if item.dtype == self.dtype else item.to(self.dtype))

    def first(self, index: int) -> Any:
        item = self.start + index * self.step
        return as_number(item.to(self.dtype)) if is_tensor(item) else item

    def reversed(self) -> Range:
        last = self.start + (self.count() - 1) * self.step
        made = Range(last, self.start - self.step, -self.step)
        made.dtype = self.dtype
        return made

    def plain(self) -> Any:
        return range(int(self.start), int(self.stop), int(self.step))


class Rows(Staged):
    """`for row in tensor`."""

    def __init__(self, tensor: torch.Tensor) -> None:
        if tensor.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        self.tensor = tensor

    def __repr__(self) -> str:
        return "a tensor"

    def count(self) -> Any:
        count = row_count(self.tensor)
        return self.tensor.shape[0] if count is None else count

    def item(self, index: torch.Tensor) -> torch.Tensor:
        return select(self.tensor, 0, index)

    def first(self, index: int) -> torch.Tensor:
        return self.tensor.select(0, index)

    def plain(self) -> Any:
        return self.tensor


class Enumerate(Staged):
    def __init__(self, inner: Staged, start: Any) -> None:
        self.inner, self.start = inner, start

    def __repr__(self) -> str:
        return "enumerate(...)"

    def count(self) -> Any:
        return self.inner.count()

    def item(self, index: torch.Tensor) -> Any:
        plain = not is_tensor(self.start) and self.start == 0
        return as_number(index if plain else index + self.start), self.inner.item(index)

    def first(self, index: int) -> Any:
        start = as_number(self.start) if is_tensor(self.start) else self.start
        return start + index, self.inner.first(index)

    def plain(self) -> Any:
        return builtins.enumerate(self.inner.plain(), int(self.start))


class Zip(Staged):
    def __init__(self, inner: list[Staged]) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return "zip(...)"

    def count(self) -> Any:
        return functools.reduce(least, (i.count() for i in self.inner))

    def item(self, index: torch.Tensor) -> Any:
        return tuple(i.item(index) for i in self.inner)

    def first(self, index: int) -> Any:
        return tuple(i.first(index) for i in self.inner)

    def plain(self) -> Any:
        return builtins.zip(*(i.plain() for i in self.inner))


def least(a: Any, b: Any) -> Any:
    """The smaller one of two counts: ints, or 0-dim int64 tensors."""
    if not is_tensor(a) and not is_tensor(b):
        return builtins.min(a, b)
    if is_tensor(a) and is_tensor(b):
        return torch.minimum(a, b)
    return torch.clamp(b, max=a) if is_tensor(b) else torch.clamp(a, max=b)


def staged(iterable: Any) -> Staged:
    return iterable if isinstance(iterable, Staged) else Rows(iterable)


def _is_one(iterable: Any) -> bool:
    return isinstance(iterable, Staged) or is_tensor(iterable)


def range_(*args: Any) -> Range:
    """Of integers, traced ones too, and 0-dim integer tensors."""
    args = tuple(as_tensor(a) for a in args)
    for a in args:
        if is_tensor(a) and (
            math.prod(sizes_now(a)) != 1 or a.dtype.is_floating_point or a.dtype.is_complex
        ):
            reject(
                f"range() at {line()} takes integers and integer tensors of one element, not a {a.dtype} tensor "
                f"of shape {sizes_now(a)}"
            )
    args = tuple(a.reshape(()) if is_tensor(a) and a.dim() else a for a in args)
    if len(args) == 1:
        return Range(0, args[0], 1)
    return Range(args[0], args[1], args[2] if len(args) > 2 else 1)


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    if _is_one(iterable) and recording():
        return Enumerate(staged(iterable), as_tensor(start))
    return builtins.enumerate(iterable, start)


def zip_(*iterables: Any, strict: bool = False) -> Any:
    """Of tensors (their rows) and ranges; beside Python iterables the rows are unrolled."""
    if all(_is_one(i) for i in iterables):
        each = [staged(i) for i in iterables]
        if not strict or _have_one_length(each):
            return Zip(each)
    parts = []
    for i in iterables:
        if is_tensor(i):
            count = Rows(i).count()
            if is_tensor(count):
                reject_here(
                    f"zip() at {line()} goes over a tensor whose number of rows may differ and a "
                    f"{next(type(x).__name__ for x in iterables if not _is_one(x))} of Python's. Make a tensor "
                    "of the latter."
                )
            parts.append(i.unbind(0))
        else:
            parts.append(i)
    return builtins.zip(*parts, strict=strict)


def _have_one_length(each: list[Staged]) -> bool:
    counts = [one.count() for one in each]
    if any(is_tensor(count) for count in counts):
        reject_here(
            f"zip(strict=True) at {line()} compares lengths that may differ between calls. Compare them before "
            "the loop, for example with torch._assert, and leave strict out."
        )
        counts = [int(count) for count in counts]
    return len(set(counts)) <= 1


def len_(x: Any) -> Any:
    """The first size, or the number of items: an int, or a traced one."""
    if isinstance(x, Staged):
        count = x.count()
        return as_number(count) if is_tensor(count) else count
    if x.dim() == 0:
        raise TypeError("len() of a 0-d tensor")
    return x.shape[0]
