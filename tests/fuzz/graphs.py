"""The record `extra/tracehost.graphs` as plain data, and back: host/archive/graph_record.h has its form.

    record = decode(content)
    node = record.op("aten::relu", "", ["self"], [1])  # of the value before
    record.graphs[0].nodes.insert(0, node)
    content = encode(record)

A type, a constant, a tensor and a node is a list: its kind, and the fields that FIELDS says. One without fields may be its kind
alone. Floats are bytes, so that each NaN stays what it is. What a save wrote has the same bytes after both.

A test may write what no save does. Bytes in place of a list are taken as they are. Miscounted says another length. A kind may be
any number, and a number may be of any length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

FIELDS: dict[str, dict[str, str]] = {
    "type": {
        **dict.fromkeys(("tensor", "int", "float", "complex", "bool", "str", "number", "none", "device", "generator"), ""),
        "list": "T", "optional": "T", "tuple": "Y", "dict": "TT",
    },
    "value": {
        "none": "", "no": "", "yes": "", "integer": "i", "real": "8", "complex": "88", "text": "t", "device": "t", "tensor": "n",
        "number_tensor": "V", "list": "TW", "tuple": "W", "dict": "TTW", "generator": "n",
    },
    # A part: record, dtype, device, sizes, strides, offset, requires_grad, conj, neg
    "tensor": {"strided": "P", "per_tensor": "P8i", "per_channel": "PPPi", "coo": "snnPP", "csr": "snPPP"},
    # And the place, in all but ends of a branch's first side and of a graph
    "node": {
        "op": "nO", "constant": "V", "branch": "bY", "loop": "BY", "list": "TB", "unpack_list": "bY", "tuple": "B",
        "unpack_tuple": "bY", "element": "ib", "nothing": "T", "end": "B",
    },
}  # fmt: skip
"""By letter: n number, i integer, t text, 8 bits of a float, s sizes, P part, T type, Y types, V value, W values, b input (how
many values back), B inputs, O inputs without their number."""
PART = "nttssinnn"

Node = Any  # ["op", number, [inputs], place]


class Miscounted(list[Any]):
    """Says that it has `says` items."""

    def __init__(self, items: Iterable[Any], says: int) -> None:
        super().__init__(items)
        self.says = says


@dataclass
class Op:
    name: bytes
    overload: bytes = b""
    arguments: list[tuple[bytes, int]] = field(default_factory=list)  # 1: it is the default


@dataclass
class Graph:
    """The nodes of blocks follow each other, as in the file."""

    inputs: int = 0
    nodes: list[Node] = field(default_factory=list)


@dataclass
class Record:
    places: list[bytes] = field(default_factory=lambda: [b""])
    ops: list[Op] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)  # [name, form]
    generators: list[int] = field(default_factory=list)
    graphs: list[Any] = field(default_factory=list)
    rest: bytes = b""

    def op(
        self,
        name: str,
        overload: str,
        arguments: Iterable[str | tuple[str, int]],
        inputs: list[int],
    ) -> Node:
        """A node of an op, which comes into the table if it is new."""
        given = [(a, 0) if isinstance(a, str) else a for a in arguments]
        op = Op(name.encode(), overload.encode(), [(a.encode(), flag) for a, flag in given])
        if op not in self.ops:
            self.ops.append(op)
        return ["op", self.ops.index(op), inputs, 0]


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def constant(*value: Any) -> Node:
    """constant("integer", 3), constant("none"), constant("real", bits(0.5))"""
    return ["constant", list(value), 0]


def end(*outputs: int) -> Node:
    return ["end", list(outputs)]


def branch(condition: int, types: list[Any], first: list[Node], second: list[Node]) -> list[Node]:
    """Each side ends with its end()."""
    return [["branch", condition, types], *first, *second[:-1], [*second[-1], 0]]


def loop(inputs: list[int], types: list[Any], body: list[Node]) -> list[Node]:
    """Inputs: trips, condition, values. The body ends with its end(), whose first output is the next condition."""
    return [["loop", inputs, types], *body[:-1], [*body[-1], 0]]


# -- reading ---------------------------------------------------------------------------------------------------


class Reader:
    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, size: int) -> bytes:
        self.at += size
        assert self.at <= len(self.content)
        return self.content[self.at - size : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def integer(self) -> int:
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def text(self) -> bytes:
        return self.take(self.number())

    def many(self, one: Callable[[], Any], count: int | None = None) -> list[Any]:
        return [one() for _ in range(self.number() if count is None else count)]

    def by_letter(self, letter: str) -> Any:
        if letter in "TV":
            return self.one("type" if letter == "T" else "value")
        if letter in "YWBs":
            return self.many(lambda: self.by_letter({"Y": "T", "W": "V", "B": "b", "s": "i"}[letter]))  # fmt: skip
        if letter == "P":
            return self.fields(PART)
        return self.take(8) if letter == "8" else {"i": self.integer, "t": self.text}.get(letter, self.number)()  # fmt: skip

    def fields(self, letters: str) -> list[Any]:
        return [self.by_letter(letter) for letter in letters]

    def one(self, of: str) -> Any:
        kind = list(FIELDS[of])[self.number()]
        fields = self.fields(FIELDS[of][kind])
        return [kind, *fields] if fields else kind

    def op(self) -> Op:
        return Op(self.text(), self.text(), self.many(lambda: (self.text(), self.number())))

    def node(self, ops: list[Op], blocks: list[int]) -> Node:
        """`blocks`: of each open block, how many of the same node follow it; -1: it is the graph's."""
        tag = list(FIELDS["node"])[self.number()]
        if tag == "op":
            op = self.number()
            return [tag, op, self.many(self.number, len(ops[op].arguments)), self.number()]
        if tag == "loop":
            carried = self.number()
            blocks.append(0)
            return [tag, self.many(self.number, carried + 2), self.many(lambda: self.one("type"), carried)]  # fmt: skip
        node = [tag, *self.fields(FIELDS["node"][tag])]
        if tag == "branch":
            blocks.append(1)
            return node
        following = blocks.pop() if tag == "end" else 0
        if following == 1:
            blocks.append(0)
        return [*node, self.number()] if following == 0 else node

    def graph(self, ops: list[Op]) -> Graph:
        graph, blocks = Graph(self.number()), [-1]
        while blocks:
            graph.nodes.append(self.node(ops, blocks))
        assert self.at == len(self.content)
        return graph


def decode(content: bytes) -> Record:
    """Requires: a save wrote it."""
    r = Reader(content)
    record = Record(
        r.many(r.text),
        r.many(r.op),
        r.many(lambda: [r.text(), r.one("tensor")]),
        r.many(r.number),
    )
    record.graphs = [Reader(graph).graph(record.ops) for graph in r.many(r.text)]
    assert r.at == len(content)
    return record


# -- writing ---------------------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    made = bytearray()
    value = value if value >= 0 else value % 2**64
    while value >= 128:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def integer(value: int) -> bytes:
    return number(2 * value if value >= 0 else -2 * value - 1)


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def many(items: Sequence[Any], one: Callable[[Any], bytes]) -> bytes:
    return number(getattr(items, "says", len(items))) + b"".join(map(one, items))


def by_letter(letter: str, value: Any) -> bytes:
    if letter in "TV":
        return one("type" if letter == "T" else "value", value)
    if letter in "YWBs":
        return many(value, lambda v: by_letter({"Y": "T", "W": "V", "B": "b", "s": "i"}[letter], v))
    if letter == "O":
        return b"".join(map(number, value))
    if letter == "P":
        return b"".join(map(by_letter, PART, value))
    return value if letter == "8" else {"i": integer, "t": text}.get(letter, number)(value)


def one(of: str, value: Any) -> bytes:
    """Of a type, a value, a tensor or a node."""
    if isinstance(value, bytes):
        return value
    kind, *fields = value if isinstance(value, (list, tuple)) else [value]
    if isinstance(kind, int):
        return number(kind) + b"".join(map(number, fields))
    made = number(list(FIELDS[of]).index(kind))
    if of == "node" and kind == "loop":
        inputs, types, *fields = fields
        made += number(getattr(inputs, "says", len(inputs)) - 2) + by_letter("O", inputs)
        made += b"".join(one("type", t) for t in types)
        return made + b"".join(map(number, fields))
    letters = FIELDS[of][kind] + "n" * (of == "node")
    return made + b"".join(map(by_letter, letters, fields))


def op_bytes(op: Any) -> bytes:
    if isinstance(op, bytes):
        return op
    return text(op.name) + text(op.overload) + many(op.arguments, lambda a: text(a[0]) + number(a[1]))  # fmt: skip


def tensor_bytes(tensor: Any) -> bytes:
    return tensor if isinstance(tensor, bytes) else text(tensor[0]) + one("tensor", tensor[1])


def graph_bytes(graph: Any) -> bytes:
    if isinstance(graph, bytes):
        return graph
    return number(graph.inputs) + b"".join(one("node", node) for node in graph.nodes)


def encode(record: Record) -> bytes:
    return (
        many(record.places, text)
        + many(record.ops, op_bytes)
        + many(record.tensors, tensor_bytes)
        + many(record.generators, number)
        + many(record.graphs, lambda graph: text(graph_bytes(graph)))
        + record.rest
    )


def first(record: Record, *nodes) -> None:
    """Puts nodes before all others. Those behind name other values then."""
    record.graphs[0].nodes[:0] = nodes


def last(record: Record, *nodes, values: int) -> None:
    """Puts nodes before the end, which gives the same as before. `values`: how many they make, those in blocks too."""
    ended = record.graphs[0].nodes[-1]
    ended[1] = [back + values for back in ended[1]]
    record.graphs[0].nodes[-1:-1] = nodes
