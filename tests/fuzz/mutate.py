"""Mutants of an archive: one part is changed, the hash recomputed. The same random numbers, the same mutant."""

from __future__ import annotations

import copy
import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

from .container import CODE, GRAPHS, MANIFEST, MARK, packed, padding, records, with_hash
from .graphs import (
    FIELDS,
    PART,
    Graph,
    Miscounted,
    Record,
    constant,
    decode,
    encode,
    end,
)

Random = random.Random
INTEGERS = (0, 1, -1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30)  # fmt: skip

# -- bytes and the zip -----------------------------------------------------------------------------------------


def some_bytes(r: Random, content: bytes) -> bytes:
    """A few places of any content changed, cut out or put in again."""
    made = bytearray(content)
    for _ in range(r.choice((1, 1, 1, 2, 4, 16))):
        if not made:
            break
        at, size = r.randrange(len(made)), r.choice((1, 1, 2, 4, 8, 64))
        kind = r.randrange(5)
        if kind == 0:
            made[at] ^= 1 << r.randrange(8)
        elif kind == 1:
            made[at : at + size] = r.randbytes(size)
        elif kind == 2:
            del made[at : at + size]
        elif kind == 3:
            made[at:at] = made[at : at + size] * r.choice((1, 2, 50))
        else:
            made[at : at + size] = bytes([r.choice((0, 255, 127, 128))]) * size
    return bytes(made)


def of_bytes(r: Random, content: bytes) -> bytes:
    return with_hash(some_bytes(r, content))


def _zip(entries: list[tuple[bytes, bytes, int, dict[str, int]]], r: Random) -> bytes:
    """A zip by hand: name, content, method, and what its directory says else than it should."""
    body, directory = bytearray(), bytearray()
    for name, content, method, lies in entries:
        data = zlib.compressobj(9, wbits=-15) if method == 8 else None
        stored = data.compress(content) + data.flush() if data else content
        offset = len(body)
        pad = padding(name.decode(errors="replace"), offset)
        body += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, method, 0, 0, zlib.crc32(content),
                            len(stored), len(content), len(name), len(pad)) + name + pad + stored  # fmt: skip
        told = {"method": method, "stored": len(stored), "size": len(content), "offset": offset,
                "flags": 0, "extra": 0} | lies  # fmt: skip
        extra = b""
        if told["extra"]:
            extra = struct.pack("<HHQQQ", 1, 24, told["size"] & (2**64 - 1), told["stored"] & (2**64 - 1), told["offset"] & (2**64 - 1))  # fmt: skip
            told |= {"size": 2**32 - 1, "stored": 2**32 - 1, "offset": 2**32 - 1}
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, told["flags"] & 0xFFFF, told["method"] & 0xFFFF, 0, 0,
                                 zlib.crc32(content), told["stored"] & 0xFFFFFFFF, told["size"] & 0xFFFFFFFF, len(name), len(extra), 0, 0, 0, 0,
                                 told["offset"] & 0xFFFFFFFF) + name + extra  # fmt: skip
    at = len(body)
    count, size = len(entries), len(directory)
    if r.random() < 0.2:
        count, size, at = r.choice(
            ((0, size, at), (65535, size, at), (count, 0, at), (count, 2**31, at), (count, size, 7))
        )
    end = b""
    if r.random() < 0.3:
        where = len(body) + len(directory)
        lie = r.choice((0, 0, 0, 1, 2**32, 2**62))
        end = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count + lie, size, at)
        end += struct.pack("<IIQI", 0x07064B50, 0, where + r.choice((0, 0, 0, 1, 2**62)), 1)
    end += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, size, at, len(MARK) + 32)
    return with_hash(bytes(body + directory) + end + MARK + b"0" * 32)


NAMES = (b"archive/code/__torch__.py", b"archive/code/__torch__/other.py", b"archive/data/999", b"archive/../../etc/x", b"/etc/x",
         b"archive/data/-1", b"archive/bytecode.pkl", b"archive/constants/0", b"archive/data/0", b"archive/version", b"", b"archive/" + b"x" * 5000)  # fmt: skip


def of_zip(r: Random, content: bytes) -> bytes:
    entries: list[Any] = [
        (name.encode(), text, 8 if name.startswith(CODE) else 0, {})
        for name, text in records(content).items()
    ]
    for _ in range(r.choice((1, 1, 2, 3))):
        i = r.randrange(len(entries))
        name, text, method, lies = entries[i]
        kind = r.randrange(8)
        if kind == 0:
            name = r.choice(NAMES)
        elif kind == 1:
            entries.insert(r.randrange(len(entries)), (r.choice((name, *NAMES)), text, method, {}))
            continue
        elif kind == 2 and len(entries) > 1:
            del entries[i]
            continue
        elif kind == 3:
            method = 8 - method
        elif kind == 4:
            field = r.choice(("size", "stored", "offset"))
            lies = lies | {field: r.choice((*INTEGERS, len(text) + 1, len(text) * 2))}
        elif kind == 5:
            lies = lies | {"method": r.choice((0, 8, 12, 99)), "flags": r.choice((0, 0, 1, 8))}
        elif kind == 6:
            lies = lies | {"extra": 1, r.choice(("size", "stored", "offset")): r.choice(INTEGERS)}
        else:  # what unpacks to much
            text, method = text + b" " * r.choice((10_000, 1_000_000, 30_000_000)), 8
        entries[i] = (name, text, method, lies)
    return _zip(entries, r)


# -- the manifest ----------------------------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    None, True, False, 0.5, "", "x", "float32", "cpu", "cuda:0", "meta", "\u0000", "\ud7ff", "é", "..", "a" * 300, [], {}, [[]], [None], "self",
    {"tensor": 0}, {"tensor": -1}, {"tensor": 2**40}, {"tensor": 0, "as": "int"}, {"absent": True}, {"ellipsis": True},
    {"member": "os:system"}, {"member": "x:Y.Z"}, {"torch": "_inductor"}, {"torch": "load"}, {"integer": "9" * 5000}, {"integer": "1_0"},
    {"real": "x"}, {"bytes": "0"}, {"complex": "00"}, {"device": "tpu"}, {"device": "cpu:300"}, {"record": "os:system", "fields": ["a"], "items": [1]},
    {"namedtuple": "a:b", "fields": ["if", "x y"], "items": [1, 2]}, {"record": "builtins:slice", "fields": [], "items": []},
    {"dict": [[{"list": []}, 1]]}, {"dict": [[1]]}, {"tuple": 3}, {"list": [{"absent": True}]}, {"namedtuple": "builtins:range", "fields": ["a"], "items": ["x"]},
    ["//", "%"], [-(2**63), -1, "//"], [[0, 0], -1, "//"], [1] * 40, [0, "not"] + ["not"] * 5000, "forward", "training", "__setstate__", "var_keyword",
)  # fmt: skip


def _places(json_: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    made = [path] if path else []
    items = (
        json_.items()
        if isinstance(json_, dict)
        else enumerate(json_)
        if isinstance(json_, list)
        else ()
    )
    for key, value in items:
        made += _places(value, (*path, key))
    return made


DEEP = "what goes in its place is deeper than Python's own reader goes"


def _new(value: Any) -> Any:
    """A copy: what is changed later is changed in one mutant alone."""
    return json.loads(json.dumps(value))


def _deep(r: Random) -> bytes:
    """Lists, or containers of arguments, in each other."""
    depth = r.choice((10, 70, 300, 3000, 100_000))
    begin, end = r.choice(((b"[", b"]"), (b'{"list": [', b"]}"), (b'{"tuple": [', b"]}")))
    return begin * depth + b"1" + end * depth


def of_manifest(r: Random, content: bytes) -> bytes:
    parts = records(content)
    tree = json.loads(parts[MANIFEST])
    if r.random() < 0.1:
        parts[MANIFEST] = some_bytes(r, parts[MANIFEST])
        return with_hash(packed(parts))
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        places = _places(tree)
        if not places:
            break
        *path, key = r.choice(places)
        holder = tree
        for step in path:
            holder = holder[step]
        kind = r.randrange(6)
        if kind == 0:
            holder[key] = _new(r.choice(VALUES))
        elif kind == 1:
            holder[key] = r.choice(INTEGERS)
        elif kind == 2:
            del holder[key]
        elif kind == 3:
            *other, last = r.choice(places)
            source = tree
            try:
                for step in other:
                    source = source[step]
                holder[key] = _new(source[last])
            except (KeyError, IndexError, TypeError):
                continue
        elif kind == 4 and isinstance(holder, list):
            often = r.choice((1, 2, 100))
            small = (
                len(json.dumps(holder[key])) < 200
            )  # a hundred of a hundred of a hundred fill the memory
            holder[key:key] = [holder[key]] * (often if small else 1)
        else:
            holder[key] = DEEP if r.random() < 0.3 else _new(r.choice(VALUES))
    text = json.dumps(tree).encode(errors="surrogatepass")
    parts[MANIFEST] = text.replace(json.dumps(DEEP).encode(), _deep(r))
    return with_hash(packed(parts))


# -- the graphs ------------------------------------------------------------------------------------------------

NUMBERS = (0, 1, 2, 3, 5, 13, 14, 127, 128, 400, 2**16, 2**31 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70)  # fmt: skip
BITS = tuple(bytes.fromhex(text) for text in (
    "0000000000000000", "0000000000000080", "000000000000f07f", "000000000000f0ff", "000000000000f87f", "010000000000f0ff", "efbeaddeefbefcff",
    "ffffffffffffef7f", "0100000000000000", "000000000000f03f",
))  # fmt: skip
TEXTS = (b"", b"x", b"a\0b", b"\xff\xfe", "größe".encode(), b"cpu", b"cuda:0", b"meta", b"tpu", b"cpu:300", b"cuda:-1", b"builtins:KeyboardInterrupt", b"builtins:ValueError",
         b"os:system", b"Float", b"Double", b"Half", b"BFloat16", b"Long", b"Bool", b"QInt8", b"QUInt4x2", b"ComplexDouble", b"Undefined", b"Bits8", b"Float8_e4m3fn",
         b"Float4_e2m1fn_x2", b"UInt1", b"%s%n", b"self", b"other", b"a" * 300, b"a" * 100_000)  # fmt: skip
OPS = tuple(tuple(name.rpartition(".")[::2]) if "." in name else (name, "") for name in (
    "aten::save", "aten::from_file", "aten::_reshape_alias", "aten::set_.source_Tensor", "aten::floordiv.int", "aten::remainder.int", "aten::mod", "aten::factorial.int",
    "aten::ljust", "aten::add.str", "aten::add.Tensor", "aten::add.t", "aten::mul.left_t", "aten::mul.Tensor", "aten::relu", "aten::relu_", "aten::list.t", "aten::copy.t_list",
    "aten::len.t", "aten::format", "aten::warn", "aten::_print", "aten::zeros", "aten::as_strided", "aten::_unsafe_index.Tensor", "aten::resize_", "aten::size", "aten::Int.Tensor",
    "aten::__getitem__.t", "aten::append.t", "aten::dict.int", "aten::tensor", "aten::item", "aten::sum", "aten::to.dtype", "prims::neg", "prim::Print", "prim::PythonOp",
    "prim::RaiseException", "prim::unchecked_cast", "prim::data", "prim::device", "prim::NumToTensor.Scalar", "prim::fork", "prim::CreateObject", "prim::GetAttr", "prim::CallFunction",
    "prim::DifferentiableGraph", "prim::FusionGroup", "prim::BailOut", "prim::If", "prim::Loop", "prim::Constant", "prim::Return", "prim::ListConstruct", "prim::TupleConstruct",
    "prim::DictConstruct", "tracehost::py_function", "tracehost::backward", "tracehost::raise_error", "tracehost::check_number", "tracehost::py_pow", "tracehost::keep",
    "tracehost::array_new", "tracehost::array_read", "tracehost::set_autocast", "tracehost::set_inference_mode", "inductor::_reinterpret_tensor", "c10d::barrier", "onnx::Add",
    "torchvision::nms", "", "x", "::", "a::", "::b", "aten::add.", "aten::\0", "aten::" + "x" * 5000,
))  # fmt: skip
# Before the end of a graph: a node of one output. Inputs: values back.
LINES = (
    ("aten::ljust", "", ("self", "width", "fillchar"), (2, 1, 2), (["text", b"a"], ["integer", 4_000_000_000])),
    ("aten::add", "str", ("a", "b"), (1, 1), (["text", b"a" * 1000],)),
    ("aten::factorial", "int", ("a",), (1,), (["integer", 999_999_999_999],)),
    ("aten::floordiv", "int", ("a", "b"), (2, 1), (["integer", -(2**63)], ["integer", -1])),
    ("aten::remainder", "int", ("a", "b"), (2, 1), (["integer", -(2**63)], ["integer", -1])),
    ("aten::mul", "left_t", ("l", "n"), (2, 1), (["list", "int", [["integer", 1]]], ["integer", 10**11])),
    ("aten::zeros", "", ("size",), (1,), (["list", "int", [["integer", 10**6]] * 2],)),
    ("aten::format", "", ("self", ""), (2, 1), (["text", b"{}{}"], ["text", b"b"])),
    ("aten::list", "t", ("l",), (1,), (["list", "int", [["integer", 1]] * 3],)),
    ("aten::dict", "int", ("inputs",), (1,), (["list", ["tuple", ["int", "int"]], []],)),
    ("aten::__getitem__", "t", ("list", "idx"), (2, 1), (["list", "int", []], ["integer", 2**62])),
    ("aten::tensor", "", ("data",), (1,), (["list", ["list", "int"], [["list", "int", []]] * 2],)),
    ("tracehost::py_pow", "", ("a", "b"), (2, 1), (["integer", 10], ["integer", 10**9])),
    ("aten::relu", "", ("self",), (1,), ()),
    ("aten::add", "Tensor", ("self", "other"), (1, 1), ()),
)  # fmt: skip
KEYS = ("int", "float", "complex", "bool", "str", "device", "tensor", ["list", "int"])


def a_type(r: Random, depth: int = 0) -> Any:
    kinds = list(FIELDS["type"])
    kind = r.choice(kinds if depth < 7 else kinds[:10])
    letters = FIELDS["type"][kind]
    if letters == "Y":
        return [kind, [a_type(r, depth + 1) for _ in range(r.choice((0, 1, 2, 3)))]]
    if letters == "TT":
        return [kind, r.choice(KEYS), a_type(r, depth + 1)]
    return [kind, a_type(r, depth + 1)] if letters else kind


def a_large_type(r: Random) -> Any:
    """In each other, or beside each other."""
    n = r.choice((5, 6, 7, 100, 254, 255, 256, 5000, 200_000))
    if r.random() < 0.5:
        return bytes([r.choice((10, 11))]) * n + b"\0"
    return [r.choice(("list", "optional")), ["tuple", [r.choice(("int", "tensor"))] * n]]


def a_value(r: Random, depth: int = 0) -> Any:
    kinds = list(FIELDS["value"])
    kind = r.choice(kinds if depth < 6 else kinds[:9])
    made: list[Any] = [kind]
    of = a_type(r, 4) if r.random() < 0.3 else r.choice(("int", "float", "tensor", "str"))
    for letter in FIELDS["value"][kind]:
        if letter == "W":
            same = r.random() < 0.7 and kind == "list"
            item = {
                "int": ["integer", 7],
                "float": ["real", BITS[4]],
                "str": ["text", b"s"],
                "tensor": ["tensor", 0],
            }.get(str(of))
            made.append(
                [
                    item if same and item else a_value(r, depth + 1)
                    for _ in range(r.choice((0, 1, 2, 3)))
                ]
            )
        elif letter == "T":
            made.append(of)
        else:
            made.append(a_field(r, letter))
    return made  # fmt: skip


def a_field(r: Random, letter: str) -> Any:
    if letter == "T":
        return a_type(r) if r.random() < 0.8 else a_large_type(r)
    if letter == "V":
        return a_value(r)
    if letter == "t":
        return r.choice(TEXTS)
    if letter == "8":
        return r.choice((*BITS, r.randbytes(8)))
    if letter == "i":
        return r.choice((*INTEGERS, r.randrange(-4, 9)))
    return r.choice((*NUMBERS, r.randrange(9), r.randrange(40)))


Slot = tuple[list[Any], int, str]


def slots(of: str, item: Any) -> list[Slot]:
    """Each place of a type, a value, a tensor or a node, with its letter."""
    if not isinstance(item, list):
        return []
    letters = FIELDS[of].get(item[0], "") if isinstance(item[0], str) else ""
    return _slots(item, 1, letters + "n" * (len(item) - 1 - len(letters)))


def _slots(holder: list[Any], first: int, letters: str) -> list[Slot]:
    made: list[Slot] = []
    for i, letter in enumerate(letters, first):
        item = holder[i]
        made.append((holder, i, letter))
        if letter in "TV":
            made += slots("type" if letter == "T" else "value", item)
        elif letter in "YWBOs":
            made += _slots(item, 0, {"Y": "T", "W": "V", "s": "i"}.get(letter, "b") * len(item))
        elif letter == "P":
            made += _slots(item, 0, PART)
    return made


def change(r: Random, of: str, item: Any) -> None:
    """One place of it."""
    found = slots(of, item)
    if not found:
        return
    holder, i, letter = r.choice(found)
    if letter == "P":
        holder[i] = copy.deepcopy(r.choice([h[j] for h, j, kind in found if kind == "P"]))
    elif letter in "YWBOs":
        changed = list(holder[i])
        how, one = r.randrange(4), {"Y": "T", "W": "V", "s": "i"}.get(letter, "b")
        if how == 0 and changed:
            del changed[r.randrange(len(changed))]
        elif how == 1:
            changed += [a_field(r, one)] * r.choice((1, 1, 2, 100))
        elif how == 2:
            changed = Miscounted(changed, r.choice((*NUMBERS, len(changed) + 1)))
        else:
            r.shuffle(changed)
        holder[i] = changed
    else:
        holder[i] = a_field(r, letter)


def of_op(r: Random, record: Record) -> None:
    """Of the table: every node of the op has another."""
    if not record.ops:
        return
    op = r.choice(record.ops)
    kind = r.randrange(6)
    if kind == 0:
        op.name, op.overload = (part.encode() for part in r.choice(OPS))
    elif kind == 1:
        op.overload = r.choice((b"", b"Tensor", b"Scalar", b"int", b"out", b"t", r.choice(record.ops).overload, b"x\0"))  # fmt: skip
    elif kind == 2 and op.arguments:
        i = r.randrange(len(op.arguments))
        other = r.choice(r.choice(record.ops).arguments or [(b"", 0)])[0]
        op.arguments[i] = (r.choice((other, *TEXTS)), r.choice((0, 1, 1, 2, 2**63)))
    elif kind == 3 and op.arguments:
        i = r.randrange(len(op.arguments))
        op.arguments[i] = (op.arguments[i][0], 1 - op.arguments[i][1])
    elif kind == 4:
        op.arguments = Miscounted(op.arguments, r.choice((*NUMBERS, len(op.arguments) + 1)))
    else:
        r.shuffle(record.ops)


def with_line(r: Random, record: Record, graph: Graph) -> None:
    """Before the graph's end, which gives the same as before."""
    name, overload, arguments, inputs, constants = r.choice(LINES)
    if r.random() < 0.3:
        name, overload = r.choice(OPS)
        arguments = arguments if r.random() < 0.5 else ()
    made = [constant(*value) for value in constants]
    made.append(record.op(name, overload, arguments, list(inputs[: len(arguments)])))
    ended = graph.nodes[-1]
    if isinstance(ended, list) and ended[0] == "end":
        ended[1] = [back + len(made) for back in ended[1]]
    graph.nodes[-1:-1] = made


def many_nodes(r: Random, record: Record) -> list[Any]:
    n = r.choice((2, 30, 200, 400, 401, 2000, 30_000))
    m = min(n, 3000)
    makers: list[Callable[[], list[Any]]] = [
        lambda: [constant("yes"), *[["branch", 1, []]] * m, *[end(), [*end(), 0]] * m],
        lambda: [constant("yes"), *[["branch", 1, []], end()] * m, *[[*end(), 0]] * m],
        lambda: [constant("integer", 1), constant("yes"), *[["loop", [2 + i, 1 + i], []] for i in range(m)],
                 *[["end", [m + 1], 0]] * m],
        lambda: [["tuple", [1], 0]] * n,
        lambda: [["tuple", [1, 1], 0]] * n,
        lambda: [["list", ["list", "tensor"], [1] * n, 0]],
        lambda: [["tuple", [1] * n, 0]],
        lambda: [["tuple", [], 0]] * n,
        lambda: [constant(*a_value(r))] * n,
        lambda: [record.op("aten::relu", "", ["self"], [1])] * n,
        lambda: [record.op("aten::stack", "", ["tensors"], [1]), ["list", ["list", "tensor"], [1, 1], 0]] * m,
        lambda: [["nothing", a_type(r), 0]] * n,
    ]  # fmt: skip
    return r.choice(makers)()


def of_nodes(r: Random, record: Record, graph: Graph) -> None:
    nodes = graph.nodes
    if not nodes:
        return
    i, kind = r.randrange(len(nodes)), r.randrange(12)
    ends = [j for j, node in enumerate(nodes) if isinstance(node, list) and node[0] == "end"]
    if kind < 4:
        change(r, "node", nodes[i])
    elif kind == 4:
        nodes.insert(r.randrange(len(nodes)), copy.deepcopy(nodes[i]))
    elif kind == 5:
        del nodes[i]
    elif kind == 6 and ends:
        j = r.choice(ends)
        nodes[j : j + 1] = r.choice(([], [nodes[j], copy.deepcopy(nodes[j])]))
    elif kind == 7:
        nodes[i] = [r.choice((*range(13), 2**40)), *[r.choice(NUMBERS) for _ in range(r.randrange(5))]]  # fmt: skip
    elif kind == 8:
        at = r.choice((i, len(nodes) - 1))
        nodes[at:at] = many_nodes(r, record)
    elif kind == 9 and nodes[i][0] in FIELDS["node"]:
        nodes[i][0] = r.choice([t for t, letters in FIELDS["node"].items() if letters == FIELDS["node"][nodes[i][0]]])  # fmt: skip
    elif kind == 10:
        nodes.insert(i, constant(*a_value(r)))
    else:
        with_line(r, record, graph)


def of_graphs(r: Random, content: bytes) -> bytes:
    parts = records(content)
    if r.random() < 0.15:
        parts[GRAPHS] = some_bytes(r, parts[GRAPHS])
        return with_hash(packed(parts))
    record = decode(parts[GRAPHS])
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        graph, kind = r.choice(record.graphs), r.randrange(20)
        if kind < 12:
            of_nodes(r, record, graph)
        elif kind < 16:
            of_op(r, record)
        elif kind == 16:
            graph.inputs = r.choice((*NUMBERS, graph.inputs + 1, max(graph.inputs - 1, 0)))
        elif kind == 17:
            record.places = r.choice((record.places + [r.choice(TEXTS)], record.places[:-1], [b"x:1"] * 5000))  # fmt: skip
        elif kind == 18:
            record.graphs = r.choice((record.graphs * 2, record.graphs[1:], record.graphs[::-1], [graph] * 100, Miscounted(record.graphs, r.choice(NUMBERS))))  # fmt: skip
            record.graphs = record.graphs or [graph]
        else:
            record.rest = r.choice((b"\0", b"x" * 1000))
    parts[GRAPHS] = encode(record)
    return with_hash(packed(parts))


def of_tensors(r: Random, content: bytes) -> bytes:
    """The forms, and the generators."""
    parts = records(content)
    record = decode(parts[GRAPHS])
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        kind = r.randrange(10)
        if kind == 0 or not record.tensors:
            count = len(record.tensors)
            record.generators += [r.choice((0, max(count - 1, 0), count, 2**63))] * r.choice((1, 1, 50))  # fmt: skip
            continue
        tensor = r.choice(record.tensors)
        if kind < 7:
            change(r, "tensor", tensor[1])
        elif kind == 7:
            tensor[0] = r.choice((r.choice(record.tensors)[0], *TEXTS))
        elif kind == 8:
            parts_of = [h[i] for h, i, letter in slots("tensor", tensor[1]) if letter == "P"]
            to = r.choice(list(FIELDS["tensor"]))
            tensor[1] = [to, *(copy.deepcopy(r.choice(parts_of)) if letter == "P" else [3, 3] if letter == "s"
                               else r.randrange(2) if letter == "n" else a_field(r, letter) for letter in FIELDS["tensor"][to])]  # fmt: skip
        else:
            record.tensors = r.choice((record.tensors[::-1], record.tensors[1:], record.tensors * 2, Miscounted(record.tensors, r.choice(NUMBERS))))  # fmt: skip
            record.tensors = record.tensors or [tensor]
    parts[GRAPHS] = encode(record)
    return with_hash(packed(parts))


def of_data(r: Random, content: bytes) -> bytes:
    """Records of tensors cut, grown or changed; version and byte order of other kinds."""
    parts = records(content)
    name = r.choice([n for n in parts if not n.startswith(CODE) and n not in (MANIFEST, GRAPHS)])
    parts[name] = r.choice((some_bytes(r, parts[name]), b"", parts[name][:-1], parts[name] * 2, b"big", b"3\n", b"99\n", b"-1\n"))  # fmt: skip
    return with_hash(packed(parts))


KINDS: dict[str, Callable[[Random, bytes], bytes]] = {
    "bytes": of_bytes, "zip": of_zip, "manifest": of_manifest, "graphs": of_graphs, "tensors": of_tensors, "data": of_data,
}  # fmt: skip
WEIGHTS = {"bytes": 1, "zip": 2, "manifest": 4, "graphs": 8, "tensors": 4, "data": 1}


def mutant(seed: int, number: int, corpus: list[bytes]) -> tuple[str, bytes]:
    """Which part is changed, and the file."""
    r = Random(f"{seed}/{number}")
    kind = r.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
    return kind, KINDS[kind](r, r.choice(corpus))
