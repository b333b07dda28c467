"""Causes: what the differences of many traces have in common, each said in a sentence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from ... import _tracehost
from .records import Account, Difference, Record

MOST_VALUES, MOST_CALLS = 8, 2

_DYNAMIC = "None"  # the text of a dynamic dimension; no argument has it
_OF_TENSORS = ("shape", "rank", "dtype", "device", "layout", "requires_grad")

# How a sentence speaks of the values of a cause.
_TOOK = {
    "rank": ("took", "ranks"),
    "dtype": ("took", "dtypes"),
    "device": ("was on", "devices"),
    "layout": ("took", "layouts"),
    "requires_grad": ("took", "values of requires_grad"),
    "subclass": ("was of", "tensor classes"),
    "alias": ("took", "roles"),
    "type": ("took", "types"),
    "structure": ("took", "structures"),
    "capture": ("took", "forms"),
}


@dataclass
class Cause:
    """One cause, and the traces that it was found in."""

    kind: str  # that of a Difference; else "again", "cleared", "emptied", "evicted", "once", "unnamed"
    paths: list[str] = field(default_factory=list)  # more than one: they changed hand in hand
    ranks: list[int] = field(default_factory=list)  # of the tensors at `paths`
    dimension: int = -1
    where: str = ""  # "read": the line
    values: list[str] = field(default_factory=list)  # distinct, in order of appearance
    traces: list[int] = field(default_factory=list)  # indices of records
    calls: Counter[str] = field(default_factory=Counter)  # places
    differs: bool = True  # it is that of Differences

    @property
    def path(self) -> str:
        return self.paths[0]

    @property
    def subject(self) -> str:
        """`argument 'x', dimension 1,`"""
        return _tracehost.subject(self.kind, self.paths, self.dimension, self.where)

    @property
    def place(self) -> str:
        """` at train.py:40`: of most of the calls; empty: not known."""
        return f" at {self.calls.most_common(1)[0][0]}" if self.calls else ""


def causes_of(records: list[Record]) -> list[Cause]:
    """Most frequent first; equals in order of appearance."""
    found: dict[object, Cause] = {}
    for index, record in enumerate(records):
        for key, cause in _causes(record):
            known = found.setdefault(key, cause)
            for value in cause.values:
                if value not in known.values:
                    known.values.append(value)
            if known.traces[-1:] != [index]:
                known.traces.append(index)
                if record.call:
                    known.calls[record.call.text] += 1
    return sorted(_joined(list(found.values())), key=lambda cause: -len(cause.traces))


def _causes(record: Record) -> list[tuple[object, Cause]]:
    """Of one trace. A key is equal for traces of one cause."""
    if record.was_once:  # differences from other signatures are no cause
        return [("once", Cause("once", values=[record.was_once], differs=False))]
    result: list[tuple[object, Cause]] = []
    kind = ""
    if record.evicted:
        kind = "evicted"
    elif record.origin in ("again", "cleared", "emptied"):
        kind = record.origin
    elif record.origin == "differs" and not record.differences:
        kind = "unnamed"
    if kind:
        result.append((kind, Cause(kind, differs=False)))
    for one in record.differences:
        key = (one.cause, one.path, one.dimension, one.where)
        cause = Cause(one.cause, [one.path], [one.rank], one.dimension, one.where, _values(one))
        result.append((key, cause))
    return result


def _values(difference: Difference) -> list[str]:
    if difference.cause == "object":  # the one before may be gone
        return [difference.after]
    values = dict.fromkeys((difference.before, difference.after))
    return [one for one in values if difference.cause != "shape" or one != _DYNAMIC]


def _joined(causes: list[Cause]) -> list[Cause]:
    """Arguments that changed hand in hand are one cause: images and labels of one batch."""
    result: list[Cause] = []
    for cause in causes:
        for other in result:
            same = (other.kind, other.dimension, other.values, other.traces)
            if cause.kind in _OF_TENSORS and same == (
                cause.kind,
                cause.dimension,
                cause.values,
                cause.traces,
            ):
                other.paths += cause.paths
                other.ranks += cause.ranks
                break
        else:
            result.append(replace(cause, paths=list(cause.paths), ranks=list(cause.ranks)))
    return result


def key(cause: Cause) -> tuple[object, ...]:
    """Equal for the same cause in another warning."""
    if cause.kind == "once":
        return (cause.kind, *cause.values)
    return (cause.kind, *cause.paths, cause.dimension, cause.where)


def sentence(cause: Cause, account: Account) -> str:
    """`argument 'x', dimension 1, took 5 values (12, 15, 17, 20, 31), from train.py:40`"""
    places = " and ".join(call for call, _ in cause.calls.most_common(MOST_CALLS))
    what = f"{cause.subject} {_change(cause)}" if cause.differs else _happened(cause, account)
    return f"{what}, from {places}" if places else what


def _change(cause: Cause) -> str:
    values = listed(cause.values)
    if cause.kind == "object":
        return f"was another object {counted(len(cause.traces), 'time')} ({values})"
    if cause.kind == "condition":
        return ", then ".join(cause.values)
    if len(cause.values) < 2:  # their texts are the same
        return f"changed ({values})"
    took, forms = _TOOK.get(cause.kind, ("took", "values"))
    each = ", each with a graph of its own" if cause.kind == "read" else ""
    return f"{took} {len(cause.values)} {forms} ({values}){each}"


def _happened(cause: Cause, account: Account) -> str:
    times = counted(len(cause.traces), "time")
    if cause.kind == "again":
        return (
            f"tracehost.function was applied again {times} to {account.name} ({account.place}), "
            "each time with an empty cache"
        )
    if cause.kind == "once":
        return f"{times} the previous graph was good for one call only: {'; '.join(cause.values)}"
    if cause.kind == "cleared":
        return f"clear() was called {times} before the next call"
    if cause.kind == "emptied":
        return f"{times} the graphs before were gone, with the objects that they were traced with"
    if cause.kind == "evicted":
        return (
            f"a specialization that would have served had been evicted {times} "
            f"(limit={account.limit})"
        )
    return f"an argument compared unequal and then equal again {times}: see its __eq__"


_BRIEF = {
    "again": "decorated again",
    "cleared": "cleared",
    "emptied": "its objects are gone",
    "once": "served one call",
    "evicted": "evicted",
    "unnamed": "unequal objects",
    "condition": "sizes compare differently",
}


def brief(cause: Cause) -> str:
    """For the table: `'x' dimension 1`, `'lr' value`, `decorated again`."""
    if cause.kind in _BRIEF:
        return _BRIEF[cause.kind]
    if cause.kind == "context":
        return cause.path
    if cause.kind == "read":
        return f"value of {quoted(cause.path)}" if cause.path else "value of a number"
    if cause.kind == "shape":
        return f"{quoted(cause.path)} dimension {cause.dimension}"
    return f"{quoted(cause.path)} {cause.kind}"


def quoted(path: str) -> str:
    """`'x'`, `"batch['image']"`"""
    quote = '"' if "'" in path else "'"
    return f"{quote}{path}{quote}"


def counted(number: int, noun: str) -> str:
    """`1 trace`, `2 traces`"""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(values: list[str]) -> str:
    more = ", ..." if len(values) > MOST_VALUES else ""
    return ", ".join(values[:MOST_VALUES]) + more
