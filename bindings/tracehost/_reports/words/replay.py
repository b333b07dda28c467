"""The recorded calls once more, under another decorator.

A call is served by an earlier trace only if the two were seen to differ in nothing else while both were live
(Record.alike). So the numbers are never too high for what was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from .declared import Declared
from .records import Record, Request

_Sizes = list[list[int | None]]  # of each tensor; None: dynamic


@dataclass
class _Made:
    """A trace that would still be made."""

    record: Record
    sizes: _Sizes


def saved_by_reducing(records: list[Record], counted: int, tensors: frozenset[str]) -> int:
    """How many of the last `counted` records reduce_retracing=True would have saved, by tf.function's rule.

    Args:
        tensors: paths of Python numbers that are passed as tensors.
    """
    return max(
        _saved(records, counted, tensors, declared=False), _saved_of_objects(records, counted)
    )


def saved_by_declaring(records: list[Record], counted: int, declared: Declared) -> int:
    """The same with this input_signature."""
    return _saved(records, counted, frozenset(declared.numbers), declared=True)


def is_reducible(record: Record) -> bool:
    """Whether it differs from the nearest graph in sizes and in objects of one class alone."""
    return record.complete and all(
        one.cause == "shape"
        or (one.cause == "capture" and one.dimension >= 0)
        or (one.cause == "object" and one.path in record.exchangeable)
        for one in record.differences
    )


def _saved_of_objects(records: list[Record], counted: int) -> int:
    """Objects are compared by their classes from the first trace on. A size is dynamic from its second value on."""
    dynamic: set[tuple[str, str, int, str]] = set()  # of each dtype by itself
    count = 0
    for index, record in enumerate(records):
        if record.origin != "differs" or not record.differences or record.evicted:
            continue
        if record.was_once or not is_reducible(record):
            continue
        sizes = {
            (one.cause, one.path, one.dimension, _dtype(record, one.path))
            for one in record.differences
            if one.cause != "object"
        }
        if sizes <= dynamic:
            count += index + counted >= len(records)
        dynamic |= sizes
    return count


def _dtype(record: Record, path: str) -> str:
    """Of the tensor among the arguments; empty: it is a capture, or the call was too large to keep."""
    if record.request is None:
        return ""
    tensors = record.request.tensors
    at = (node for node in record.request.nodes if node.kind == "tensor" and node.path == path)
    return next((tensors[node.tensor].dtype for node in at), "")


def _saved(records: list[Record], counted: int, tensors: frozenset[str], declared: bool) -> int:
    """`declared`: sizes are not compared."""
    made: list[_Made] = []
    count = 0
    for index, record in enumerate(records):
        if record.request is None:
            continue
        request = _Made(record, [list(tensor.sizes) for tensor in record.request.tensors])
        near = []
        for earlier in made:
            if _are_kin(earlier.record, record):
                pairs = _pairs(earlier.record.request, record.request, tensors)
                if pairs is not None:
                    near.append((earlier, pairs))
        conditional = any(one.cause in ("condition", "read") for one in record.differences)
        if not conditional and any(declared or _takes(m, request, pairs) for m, pairs in near):
            count += index + counted >= len(records)
            continue
        for earlier, pairs in near:
            _generalize(request, earlier, pairs)
        made.append(request)
    return count


def _are_kin(earlier: Record, later: Record) -> bool:
    """Whether the two were compared when `later` was traced, and could be one."""
    return earlier.function == later.function and earlier.number in later.alike


def _pairs(a: Request | None, b: Request | None, tensors: frozenset[str]) -> dict[int, int] | None:
    """The tensors of two calls that stand at the same places; None: they differ in more than sizes. Numbers at the
    paths `tensors` are 0-dim tensors."""
    if a is None or b is None or len(a.nodes) != len(b.nodes):
        return None
    there: dict[int, int] = {}
    back: dict[int, int] = {}
    for x, y in zip(a.nodes, b.nodes, strict=True):
        if x.kind == y.kind == "tensor":
            s, t = a.tensors[x.tensor], b.tensors[y.tensor]
            if s.dtype != t.dtype or len(s.sizes) != len(t.sizes):
                return None
            if there.setdefault(x.tensor, y.tensor) != y.tensor:
                return None
            if back.setdefault(y.tensor, x.tensor) != x.tensor:
                return None
        elif x.path and x.path in tensors and y.path in tensors:
            given = [a.tensors[x.tensor]] if x.kind == "tensor" else []
            given += [b.tensors[y.tensor]] if y.kind == "tensor" else []
            if any(tensor.sizes for tensor in given):
                return None  # a number has no dimension
        elif (x.kind, x.end, x.text) != (y.kind, y.end, y.text):
            return None
    return there


def _takes(made: _Made, request: _Made, pairs: dict[int, int]) -> bool:
    return all(
        size is None or size == given
        for one, other in pairs.items()
        for size, given in zip(made.sizes[one], request.sizes[other], strict=True)
    )


def _generalize(request: _Made, earlier: _Made, pairs: dict[int, int]) -> None:
    for one, other in pairs.items():
        sizes = request.sizes[other]
        for dimension, size in enumerate(earlier.sizes[one]):
            if sizes[dimension] != size:
                sizes[dimension] = None
