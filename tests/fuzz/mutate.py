"""Mutants of an archive: one part is changed, the hash recomputed. The same random numbers, the same mutant."""

from __future__ import annotations

import json
import pickletools
import random
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

from .container import DEBUG, MANIFEST, MARK, PICKLES, SOURCE, packed, records, with_hash

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
        body += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, method, 0, 0, zlib.crc32(content),
                            len(stored), len(content), len(name), 0) + name + stored  # fmt: skip
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
        (name.encode(), text, 8 if name.startswith(SOURCE) else 0, {})
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


# -- the source ------------------------------------------------------------------------------------------------

TOKENS = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d[\w.]*(?:e[-+]?\d+)?|\s+|.')
WORDS = (
    "torch.save", "torch.from_file", "torch.factorial", "torch.floordiv", "torch.ljust", "torch.add", "torch.set_", "torch._reshape_alias",
    "torch._unsafe_index", "torch.as_strided", "torch.format", "ops.prim.unchecked_cast", "ops.prim.PythonOp", "ops.inductor._reinterpret_tensor",
    "ops.c10d.barrier", "ops.prims.add", "ops.tracehost.py_pow", "ops.tracehost.check_number", "ops.tracehost.save_data", "unchecked_cast", "uninitialized",
    "annotate", "fork", "print", "self", "self.training", "CONSTANTS.c0", "CONSTANTS.c999", "inf", "nan", "None", "True", "x_", "_0", "-1", "0", "1",
    "-9223372036854775808", "9223372036854775807", "99999999999999999999", "1e999", '"a"', '"%s"', '"""', "'", "#", "\\", "\t", "\n", "(", ")", "[", "]", ",", ":",
    "=", "@", "**", "not ", "-", "+", "//", "if", "else", "while", "for", "in", "range", "return", "pass", "def", "class", "import", "Tuple", "List", "Dict",
    "Optional", "Tensor", "Any", "__torch__", "Module", "lambda", "with", "raise", "assert", "global", "del", "é", "\u0000", "\x7f",
)  # fmt: skip
METHODS = (
    "  def __setstate__(self: __torch__.tracehost.Archive,\n    state: Tensor) -> NoneType:\n    return None\n",
    "  def __getstate__(self: __torch__.tracehost.Archive) -> Tensor:\n    return torch.zeros([1])\n",
    "  def more(self: __torch__.tracehost.Archive,\n    x_: Tensor) -> Tensor:\n    return x_\n",
    "class Other(NamedTuple):\n  a : Tensor\n",
    "def function(x: Tensor) -> Tensor:\n  return x\n",
)
LINES = (
    '_9 = torch.ljust("a", 4000000000)', '_9 = torch.factorial(999999999999)', "_9 = torch.floordiv(-9223372036854775808, -1)",
    "_8 = torch.sub(-9223372036854775807, 1)\n    _9 = torch.remainder(_8, -1)", '_9 = torch.add("a", "a")', 'torch.save(x_, "written")',
    '_9 = torch.from_file("written", True, 10)', "_9 = torch.mul([1], 100000000000)", "_9 = ops.prim.Print(x_)", 'torch.warn("a", 2)',
    "_9 = torch.zeros([1000000, 1000000])", "while True:\n      pass", "for i in range(9223372036854775807):\n      pass", "_9 = [_9]",
    "_9 = (x_, (x_, (x_, x_)))", "_9 = torch.add(1, torch.add(1, torch.add(1, 1)))", "if torch.eq(1, 1):\n      _9 = 1\n    else:\n      _9 = 2",
    'ops.prim.RaiseException("x", "os.system")', 'ops.prim.RaiseException("x", "builtins.KeyboardInterrupt")', "_9 = torch.as_strided(x_, [100000], [1000], 0)",
    "_9 = torch._reshape_alias(x_, [100000], [1000])", '_9 = torch.format("{}{}", "a", "b")', "_9 = torch.device(\"tpu\")", "_9 = torch.device(\"cuda:0\")",
    "_9 = torch.resize_(x_, [3, 3])", "_9 = ops.tracehost.py_pow(10, 1000000000)", "_9 = torch.Generator(device=\"cpu\", seed=1)",
)  # fmt: skip


def _large(r: Random) -> str:
    n = r.choice((30, 60, 200, 2000, 50_000))
    m = min(n, 3000)
    chains = ("[_{0}, _{0}]", "[_{0}]", "(_{0}, _{0})", "torch.add(_{0}, _{0})", "torch.relu(_{0})", "torch.mul(_{0}, 3)", "torch.stack([_{0}, _{0}])")  # fmt: skip
    makers: list[Callable[[], str]] = [
        lambda: "    _9 = " + "(" * n + "x_" + ")" * n,
        lambda: "    _9 = " + "[" * n + "]" * n,
        lambda: "    _9 = " + "torch.neg(" * n + "x_" + ")" * n,
        lambda: "    _9 = annotate(" + "List[" * n + "int" + "]" * n + ", [])",
        lambda: "    _9 = " + "-" * n + "1",
        lambda: "    _9 = " + "not " * n + "True",
        lambda: "    _9 = x_" + "[0]" * n,
        lambda: "    _9 = [" + "1, " * n + "]",
        lambda: "\n".join("  " * (i + 2) + "if True:" for i in range(min(n, 500))) + "\n" + "  " * (min(n, 500) + 2) + "pass",
        lambda: "    _8 = " + r.choice(("x_", "1", '"a"')) + "\n" + chain(r.choice(chains), m),
    ]  # fmt: skip

    def chain(form: str, count: int) -> str:
        return "\n".join(f"    _{i + 9} = {form.format(i + 8)}" for i in range(count))

    return r.choice(makers)()


def of_source(r: Random, content: bytes) -> bytes:
    parts = records(content)
    text = parts[SOURCE].decode()
    kind = r.randrange(10)
    if kind < 5:
        tokens = TOKENS.findall(text)
        for _ in range(r.choice((1, 1, 1, 2, 3, 8))):
            i = r.randrange(len(tokens))
            how = r.randrange(5)
            if how == 0:
                tokens[i] = r.choice(WORDS)
            elif how == 1:
                tokens[i] = r.choice(tokens)
            elif how == 2:
                tokens[i] = ""
            elif how == 3:
                tokens.insert(i, r.choice((*WORDS, tokens[i])))
            else:
                j = r.randrange(len(tokens))
                tokens[i], tokens[j] = tokens[j], tokens[i]
        text = "".join(tokens)
    else:
        lines = text.split("\n")
        bodies = [
            i for i, line in enumerate(lines) if line.startswith("    ") and ": Tensor" not in line
        ]
        i = r.choice(bodies or [0])
        if kind == 5:
            lines.insert(r.randrange(len(lines)), r.choice(METHODS))
        elif kind == 6:
            lines.insert(i, _large(r))
        elif kind == 7:
            lines.insert(i, r.choice(lines))
        elif kind == 8:
            del lines[r.randrange(len(lines))]
        else:
            lines.insert(i, "    " + r.choice(LINES))
        text = "\n".join(lines)
    parts[SOURCE] = text.encode(errors="surrogatepass")
    return with_hash(packed(parts))


# -- pickles, and debug records --------------------------------------------------------------------------------

TEXTS = ("storage", "cpu", "cuda:0", "meta", "0", "1", "99", "-1", "../0", "", "training", "forward", "__setstate__", "FORMAT_WITH_STRING_TABLE", "a" * 300)  # fmt: skip
GLOBALS = ("os system", "builtins eval", "torch.jit _pickle", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_sparse_tensor",
           "torch._utils _rebuild_qtensor", "torch FloatStorage", "torch BoolStorage", "torch QInt8Storage", "torch UndefinedStorage", "torch ComplexDoubleStorage",
           "torch.jit._pickle restore_type_tag", "torch.jit._pickle build_intlist", "__torch__.tracehost Archive", "__torch__ Other", "collections OrderedDict")  # fmt: skip
OPCODES = b".(0123FIJKLMNPRSTUVXbcdeghijlopqrstu]}a)QG\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8b\x8c\x93\x94\x95"


def _opcodes(content: bytes) -> list[bytes]:
    places = [place for _, _, place in pickletools.genops(content)] + [len(content)]
    return [content[a:b] for a, b in zip(places, places[1:])]


def _integer(r: Random) -> bytes:
    value = r.choice(INTEGERS)
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<Q", value % 2**64)


def pickle(r: Random, content: bytes) -> bytes:
    ops = _opcodes(content)
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        i = r.randrange(len(ops))
        kind = r.randrange(8)
        if kind == 0:
            numbers = [j for j, op in enumerate(ops) if op[:1] in b"KMJ"]
            ops[r.choice(numbers or [i])] = _integer(r)
        elif kind == 1:
            texts = [j for j, op in enumerate(ops) if op[:1] == b"X"]
            text = r.choice(TEXTS).encode()
            ops[r.choice(texts or [i])] = b"X" + struct.pack("<I", len(text)) + text
        elif kind == 2:
            names = [j for j, op in enumerate(ops) if op[:1] == b"c"]
            ops[r.choice(names or [i])] = (
                b"c" + r.choice(GLOBALS).replace(" ", "\n").encode() + b"\n"
            )
        elif kind == 3:
            del ops[i]
            ops = ops or [b"."]
        elif kind == 4:
            ops.insert(i, ops[r.randrange(len(ops))])
        elif kind == 5:
            ops[i] = ops[r.randrange(len(ops))]
        elif kind == 6:
            ops.insert(i, bytes([r.choice(OPCODES)]) + r.randbytes(r.choice((0, 1, 4))))
        else:
            ops[i:i] = [r.choice((b"(", b")", b"]", b"}", b"h\x00", b"\x85", b"N"))] * r.choice(
                (2, 100, 30_000)
            )
    return b"".join(ops)


def of_pickles(r: Random, content: bytes) -> bytes:
    parts = records(content)
    name = r.choice(PICKLES)
    parts[name] = some_bytes(r, parts[name]) if r.random() < 0.2 else pickle(r, parts[name])
    return with_hash(packed(parts))


def of_debug(r: Random, content: bytes) -> bytes:
    parts = records(content)
    change: Callable[[Random, bytes], bytes] = r.choice((some_bytes, pickle, pickle))
    parts[DEBUG] = change(r, parts[DEBUG])
    return with_hash(packed(parts))


def of_data(r: Random, content: bytes) -> bytes:
    """Records of tensors cut, grown or changed; version and byte order of other kinds."""
    parts = records(content)
    name = r.choice([n for n in parts if n not in (SOURCE, DEBUG, MANIFEST, *PICKLES)])
    parts[name] = r.choice((some_bytes(r, parts[name]), b"", parts[name][:-1], parts[name] * 2, b"big", b"3\n", b"99\n", b"-1\n"))  # fmt: skip
    return with_hash(packed(parts))


KINDS: dict[str, Callable[[Random, bytes], bytes]] = {
    "bytes": of_bytes, "zip": of_zip, "manifest": of_manifest, "source": of_source, "pickles": of_pickles, "debug": of_debug, "data": of_data,
}  # fmt: skip
WEIGHTS = {"bytes": 1, "zip": 2, "manifest": 4, "source": 5, "pickles": 4, "debug": 1, "data": 1}


def mutant(seed: int, number: int, corpus: list[bytes]) -> tuple[str, bytes]:
    """Which part is changed, and the file."""
    r = Random(f"{seed}/{number}")
    kind = r.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
    return kind, KINDS[kind](r, r.choice(corpus))
