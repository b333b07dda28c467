"""The facts of the traces of one definition site, as C++ gives them (bindings/src/call/retraces.cpp)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Place:
    """A line of a user's source."""

    file: str
    line: int
    text: str  # `train.py:12`


@dataclass(frozen=True)
class Difference:
    """In what a call differs from a graph."""

    cause: str  # "shape", "value", "guard" ... (host/signature/difference.h)
    path: str
    dimension: int
    before: str
    after: str
    rank: int
    where: str


@dataclass(frozen=True)
class SpecializedSize:
    """A size that the body needs as a number."""

    path: str
    dimension: int
    sentence: str


class Node(NamedTuple):
    """A part of a call's arguments: a leaf, or a container before its parts."""

    kind: str  # "tensor", "int", "list" ...
    end: int  # the index behind its parts
    text: str  # a leaf's; of a container its type
    path: str  # of tensors and numbers
    tensor: int  # index into Request.tensors; -1


class Tensor(NamedTuple):
    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """The arguments of a call, without its objects and values of tensors."""

    names: list[str]  # the parameters'
    kinds: list[str]  # "positional", "rest", "keyword", "named"; empty: all are positional
    defaults: list[str]  # as texts; empty where there is none
    nodes: list[Node]
    tensors: list[Tensor]

    def starts(self) -> dict[str, int]:
        """The index of the node of each parameter."""
        at, result = 0, {}
        for name in self.names:
            if at == len(self.nodes):
                break
            result[name] = at
            at = self.nodes[at].end
        return result


@dataclass(frozen=True)
class Record:
    """A trace."""

    differences: list[Difference]  # from the nearest graph
    call: Place | None
    origin: str  # "initial", "again", "cleared", "emptied", "differs" (host/report/record.h)
    complete: bool  # `differences` are all
    evicted: bool  # an evicted graph would have served
    once: str  # why its graph serves no later call; empty: it may
    was_once: str  # the same of the trace before, where that is the cause
    seen: bool  # the site had traced this signature before
    function: int
    number: int
    request: Request | None
    alike: list[int]  # numbers of the graphs that differ in sizes, ranks and numbers alone
    exchangeable: list[str]  # paths of objects that reduce_retracing compares by class
    specialized: list[SpecializedSize]


@dataclass(frozen=True)
class Account:
    """What is known of the Functions of one definition site."""

    name: str
    definition: Place | None
    declared: bool  # it has an input_signature
    reduces: bool  # it has reduce_retracing=True
    ms: float  # spent on traces so far
    limit: int
    signatures: int  # distinct ones traced so far
    records: list[Record]  # the latest, oldest first
    counted: int = field(default=0)  # how many of the last ones a warning counts; 0: all

    @property
    def window(self) -> list[Record]:
        """The traces that are counted."""
        return self.records[-self.counted :] if self.counted else self.records

    @property
    def place(self) -> str:
        return self.definition.text if self.definition else "?"


def place(facts: dict[str, Any] | None) -> Place | None:
    return Place(**facts) if facts else None


def account(facts: dict[str, Any], counted: int = 0) -> Account:
    """Of what C++ gives. `counted`: as in Account."""
    return Account(
        **{
            **facts,
            "definition": place(facts["definition"]),
            "records": [_record(one) for one in facts["records"]],
            "counted": min(counted, len(facts["records"])),
        }
    )


def _record(facts: dict[str, Any]) -> Record:
    return Record(
        **{
            **facts,
            "call": place(facts["call"]),
            "differences": [Difference(**one) for one in facts["differences"]],
            "specialized": [SpecializedSize(**one) for one in facts["specialized"]],
            "request": _request(facts["request"]),
        }
    )


def _request(facts: dict[str, Any] | None) -> Request | None:
    if facts is None:
        return None
    nodes = [Node(*one) for one in facts["nodes"]]
    tensors = [Tensor(*one) for one in facts["tensors"]]
    return Request(facts["names"], facts["kinds"], facts["defaults"], nodes, tensors)
