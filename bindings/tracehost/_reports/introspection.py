"""What a Function has traced, and what a call would do: plain objects and their texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import _tracehost
from .._cells import in_cells
from .._concrete import instance_of
from .._traced.fake_tensors import attempt
from .._tracehost import Function
from .monitor import counted
from .report import events, latest_traces

_ONCE = "  the last trace served its own call: {}"


@dataclass(frozen=True)
class SpecializedSize:
    """A size that was to be any, and had to stay exact."""

    path: str
    dimension: int
    why: str
    where: str

    def __str__(self) -> str:
        return f"{self.path}.shape[{self.dimension}] cannot be dynamic: {self.why} at {self.where}"


@dataclass(frozen=True)
class Specialization:
    """One live trace of a Function."""

    number: int  # counts the Function's traces: 1 for the first
    signature: str
    hits: int
    trace_ms: float
    first_call: str  # `train.py:12`; empty: not known
    ops: int
    captures: int
    dynamic: bool  # some size may be any
    specialized: tuple[SpecializedSize, ...]
    calls_python: bool  # by a py_function
    runs_by: str  # `a tape + 3 regions (41 of 43 ops)`; empty: with optimize="off"
    # what the body reaches that may change unseen: `TABLE (net.py): numpy.ndarray`
    unguarded: tuple[str, ...]

    def __str__(self) -> str:
        at = f" at {self.first_call}" if self.first_call else ""
        text = (
            f"#{self.number} {self.signature}: {counted(self.hits, 'hit')}, "
            f"{counted(self.ops, 'op')}, {counted(self.captures, 'capture')}, "
            f"traced in {self.trace_ms:.1f} ms{at}"
        )
        if self.runs_by:
            text += f", runs by {self.runs_by}"
        if self.unguarded:
            text += f"\n   not guarded, may change unseen: {', '.join(self.unguarded)}"
        return "\n".join([text, *(f"   {one}" for one in self.specialized)])


@dataclass(frozen=True)
class Difference:
    """Why a specialization does not serve."""

    path: str
    cause: str  # "shape", "dtype", "value", "guard" ...
    dimension: int | None
    before: str  # what the specialization has
    after: str  # what the call brings

    def __str__(self) -> str:
        where = self.path if self.dimension is None else f"{self.path}.shape[{self.dimension}]"
        return f"{where}: {self.before} -> {self.after} ({self.cause})"


@dataclass(frozen=True)
class Explanation:
    """What a call would do."""

    function: str
    signature: str
    hit: bool
    specialization: Specialization | None  # the one that serves; on a miss the nearest
    differences: tuple[Difference, ...]  # of the call from that
    cost_ms: float | None  # of a miss, by the mean of this Function's traces; None: it has none
    # of a miss: such calls that run as plain Python from now on, as traces did not pay
    plain_calls: int
    # of a miss: why the latest trace with this signature served its own call alone; empty: it did not
    served_once: str = ""

    def __str__(self) -> str:
        call = f"{self.function} called with {self.signature}"
        if self.hit:
            assert self.specialization is not None
            return f"{call}\n  hit: specialization {self.specialization}"
        cost = "" if self.cost_ms is None else f", about {self.cost_ms:.1f} ms"
        once = [_ONCE.format(self.served_once)] if self.served_once else []
        if self.specialization is None:
            first = "" if self.plain_calls or once else ", for the first time"
            return "\n".join([call, f"  miss: {self._outcome(first + cost)}", *once])
        nearest = self.specialization
        lines = [
            call,
            f"  miss: {self._outcome(cost)}; nearest is #{nearest.number} {nearest.signature}",
        ]
        return "\n".join(lines + once + [f"  {difference}" for difference in self.differences])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As the last line of a cell."""
        printer.text(in_cells(str(self)))

    def _outcome(self, cost: str) -> str:
        if not self.plain_calls:
            return f"it would be traced{cost}"
        calls = counted(self.plain_calls, "such call")
        return f"it would run as plain Python, as the next {calls} will: the last traces served no later call"


def _specialization(fields: dict[str, Any]) -> Specialization:
    fields["specialized"] = tuple(SpecializedSize(*one) for one in fields["specialized"])
    return Specialization(**fields)


def _specializations(self: Function) -> list[Specialization]:
    """specializations() -> list

    The live traces, in the order they were made.
    """
    return [_specialization(f) for f in _tracehost.specializations(self)]


def _report(self: Function) -> str:
    """report() -> str

    Counters, and a line for each live trace.
    """
    stats = self.stats()
    lines = [
        f"{self.name}: {counted(stats['calls'], 'call')}, {counted(stats['hits'], 'hit')}, "
        f"{counted(stats['traces'], 'trace')} in {stats['trace_ms']:.1f} ms, {stats['live']} live, "
        f"{stats['evicted']} evicted"
    ]
    if stats["validated"] or stats["unvalidated"]:
        reasons = "; ".join(stats["unvalidated_because"])
        lines[0] += (
            f"; validation: {stats['validated']} checked, {stats['unvalidated']} not checked"
            f"{f' ({reasons})' if reasons else ''}, {stats['mismatches']} wrong"
        )
    if stats["captured"] or stats["not_captured"]:
        lines[0] += (
            f"; CUDA graphs: {stats['captured']} captured, {stats['not_captured']} not captured, "
            f"{stats['dropped']} dropped, {stats['device_bytes'] / 2**20:.1f} MiB of device memory"
        )
    traces = latest_traces(1, self)
    if traces and (why := _served_once(self, traces[0].signature)):
        lines.append(_ONCE.format(why))
    for specialization in self.specializations():
        lines += [f"  {line}" for line in str(specialization).split("\n")]
    return "\n".join(lines) + "\n"


def _served_once(function: Any, signature: str) -> str:
    """Why the latest trace with the signature served its own call alone. It is not live, and was not evicted."""

    def matches(other: str) -> bool:  # with values that were checked, or without
        return other == signature or other.startswith(f"{signature} with ")

    known = [e for e in events(function) if matches(e.signature) and not e.requested]
    traces = [e for e in known if e.kind == "trace"]
    live = sum(matches(s.signature) for s in function.specializations())
    gone = sum(e.kind in ("evict", "mismatch") for e in known)
    return traces[-1].notes[-1] if len(traces) > live + gone and traces[-1].notes else ""


def _explain(self: Function, /, *args: Any, **kwargs: Any) -> Explanation:
    """explain(*args, **kwargs) -> Explanation

    What a call with these arguments would do: hit or miss, which specialization, what differs from the
    nearest one, what a miss would cost. Runs nothing, counts nothing. TensorSpecs may stand for tensors.
    """
    args = (*instance_of(self), *args)
    found = attempt(self.name, lambda maker: _tracehost.explain(self, args, kwargs, maker))
    shown = found["specialization"]
    found["specialization"] = None if shown is None else _specialization(shown)
    found["differences"] = tuple(
        Difference(path, cause, None if dimension < 0 else dimension, before, after)
        for path, cause, dimension, before, after in found["differences"]
    )
    if not found["hit"]:
        found["served_once"] = _served_once(self, found["signature"])
    return Explanation(**found)


Function.explain = _explain
Function.specializations = _specializations
Function.report = _report
for _class in (Difference, Explanation, SpecializedSize, Specialization):
    _class.__module__ = "tracehost"
