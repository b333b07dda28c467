"""What a load takes for files that grow: `tracehost -m fuzz.growth` in tests/, some minutes.

Each kind of record is doubled alone, 1 MB to 8 MB. Memory is at most 64 MiB and 600 bytes a byte (the guide to
archives promises that), and grows by at most 2.3 a step. So does CPU time, where a step takes more than a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import tracehost

from .container import DATA, GRAPHS, MANIFEST, packed, records, with_hash
from .graphs import (
    Miscounted,
    Op,
    Record,
    branch,
    constant,
    decode,
    encode,
    end,
    integer,
    last,
    loop,
    one,
)
from .victim import FOR_GRAPHS, FREE


def _node(node) -> bytes:
    return one("node", node)


def _repeated(record: Record, size: int, unit: list, values: int, before: list = []) -> None:
    """`unit` again and again, behind `before`; each node of `before` makes a value."""
    text = b"".join(map(_node, unit))
    count = size // len(text)
    last(record, *before, text * count, values=len(before) + count * values)


def _state(record: Record, parts: dict[str, bytes]) -> int:
    """The number of a tensor that a generator may have as its state."""
    state = torch.Generator().get_state()
    parts[DATA + "9"] = bytes(state.tolist())
    record.tensors.append([b"state", ["strided", [9, b"Byte", b"cpu", [state.numel()], [1], 0, 0, 0, 0]]])  # fmt: skip
    return len(record.tensors) - 1


def _specializations(parts: dict[str, bytes], size: int) -> None:
    """So many bytes of them in the manifest, each with the same graph."""
    manifest = json.loads(parts[MANIFEST])
    known = manifest["functions"][0]["specializations"]
    known *= size // len(json.dumps(known))
    parts[MANIFEST] = json.dumps(manifest).encode()


WIDE = ["list", ["tuple", [["optional", "tensor"]] * 126]]  # as many types as one may have
DEEP = [
    *[["branch", 1, []]] * 400,
    *[["end", []], ["end", [], 0]],
    *[b"\n\0\n\0\0"] * 399,
]  # each first side holds the next
KINDS = {
    # tables
    "places": lambda r, n, _: r.places.extend([b""] * n),
    "ops": lambda r, n, _: r.ops.extend([Op(b"a::b")] * (n // 7)),
    "names of ops": lambda r, n, _: r.ops.extend(Op(b"a::%06x" % i) for i in range(n // 12)),
    "arguments of an op": lambda r, n, _: r.ops.append(Op(b"a::b", b"", [(b"", 1)] * (n // 2))),
    "tensors": lambda r, n, _: r.tensors.extend([b"%06x" % i, ["strided", [0, b"Float", b"cpu", [], [], 0, 0, 0, 0]]] for i in range(n // 27)),
    "generators": lambda r, n, parts: r.generators.extend([_state(r, parts)] * n),
    "graphs": lambda r, n, _: r.graphs.extend([b""] * n),
    "inputs": lambda r, n, _: (setattr(r.graphs[0], "inputs", n), _repeated(r, n, [constant("none")], 1)),
    "specializations of one graph": lambda r, n, parts: (_repeated(r, n // 2, [constant("none")], 1), _specializations(parts, n // 2)),
    # nodes
    "ops in a row": lambda r, n, _: _repeated(r, n, [r.op("aten::relu", "", ["self"], [1])], 1),
    "uses of one value": lambda r, n, _: last(r, *[_node([*r.op("aten::relu", "", ["self"], [1 + i]), ]) for i in range(n // 6)], values=n // 6),
    "arguments left out": lambda r, n, _: _repeated(r, n, [r.op("aten::stft", "", ["self", "n_fft"], [2, 1]), constant("integer", 1)], 2, [constant("integer", 1)]),
    "types of results": lambda r, n, _: _repeated(r, n, [r.op("aten::list", "t", ["l"], [1])], 1, [["list", WIDE, [], 0]]),
    "lists": lambda r, n, _: _repeated(r, n, [["list", ["list", "int"], [], 0]], 1),
    "items of a list": lambda r, n, _: last(r, constant("integer", 1), ["list", ["list", "int"], [1] * n, 0], values=2),
    "tuples": lambda r, n, _: _repeated(r, n, [["tuple", [], 0]], 1),
    "items of tuples": lambda r, n, _: _repeated(r, n, [constant("none"), ["tuple", [1] * 250, 0]], 2),
    "elements": lambda r, n, _: _repeated(r, n, [["tuple", [1], 0], ["element", 0, 1, 0]], 2),
    "unpacks": lambda r, n, _: _repeated(r, n, [["list", ["list", "tensor"], [1], 0], ["unpack_list", 1, ["tensor"], 0]], 2),
    "unpacks of one list": lambda r, n, _: _repeated(r, n, [["unpack_list", 1, [], 0]], 0, [["list", ["list", "tensor"], [1], 0]]),
    "outputs of an unpack": lambda r, n, _: last(r, ["list", ["list", "tensor"], [1], 0], ["unpack_list", 1, ["tensor"] * n, 0], values=n + 1),
    "unpacks of tuples": lambda r, n, _: _repeated(r, n, [["tuple", [1], 0], ["unpack_tuple", 1, ["tensor"], 0]], 2),
    # blocks
    "branches": lambda r, n, _: _repeated(r, n, branch(1, [], [end()], [end()]), 0, [constant("yes")]),
    "branches in each other": lambda r, n, _: _repeated(r, n, DEEP, 0, [constant("yes")]),
    "outputs of a branch": lambda r, n, _: last(r, constant("yes"), *branch(1, ["bool"] * (n // 3), [["end", [1] * (n // 3)]], [["end", [1] * (n // 3)]]), values=1 + n // 3),
    "loops": lambda r, n, _: _repeated(r, n, [constant("integer", 1), constant("yes"), *loop([2, 1], [], [end(2)])], 3),
    "values of a loop": lambda r, n, _: last(r, constant("integer", 1), constant("yes"), *loop([2, 1, *[1] * (n // 5)], ["bool"] * (n // 5), [["end", [n // 5 + 2] * (n // 5 + 1)]]), values=3 + n // 5 * 2),
    # constants
    **{f"constants: {value[0]}": (lambda value: lambda r, n, parts: (value[0] == "generator" and r.generators.append(_state(r, parts)), _repeated(r, n, [constant(*value)], 1)))(value) for value in
       (["none"], ["integer", 1], ["text", b""], ["tensor", 0], ["number_tensor", ["integer", 1]], ["list", "int", []], ["tuple", []], ["dict", "int", "int", []], ["generator", 0])},
    "items of a constant": lambda r, n, _: last(r, constant("list", "none", ["none"] * n), values=1),
    "lists in each other": lambda r, n, _: last(r, constant("list", ["list", "int"], [one("value", ["list", "int", []])] * (n // 3)), values=1),
    "tuples in a list": lambda r, n, _: last(r, constant("list", ["tuple", []], [one("value", ["tuple", []])] * (n // 2)), values=1),
    "a dict": lambda r, n, _: last(r, constant("dict", "int", "none", Miscounted([b"\3" + integer(2**20 + i) + b"\0" for i in range(n // 5)], 2 * (n // 5))), values=1),
    "a text": lambda r, n, _: last(r, constant("text", b"x" * n), values=1),
}  # fmt: skip

CHILD = """
import pathlib, sys, time
import tracehost

def memory(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

small, large = sys.argv[1:]
tracehost.load(small)
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the most from here on
before, started = memory("VmRSS"), time.process_time()
try:
    tracehost.load(large)
    said = "loads"
except tracehost.ArchiveError as error:
    said = str(error)
print(memory("VmHWM") - before, time.process_time() - started, said)
"""


def grown(path: Path, kind: str, size: int, seconds: float = 300) -> tuple[int, float, str]:
    """Bytes and CPU seconds that a load takes of `path` with so many more bytes of a kind; what it says."""
    parts = records(path.read_bytes())
    record = decode(parts[GRAPHS])
    KINDS[kind](record, size, parts)
    parts[GRAPHS] = encode(record)
    large = path.with_name("large.pt")
    large.write_bytes(with_hash(packed(parts)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, path, large],
        capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip
    assert done.returncode == 0, f"{kind}: {done.returncode} {done.stderr[-500:]}"
    took, cpu, said = done.stdout.split(" ", 2)
    return int(took), float(cpu), said.strip()


def small(path: Path) -> Path:
    """An archive with a weight of 3 x 4 and a constant; `x @ weight + 0.5`."""
    weight = torch.arange(12.0).reshape(3, 4)

    @tracehost.function
    def f(x: torch.Tensor) -> torch.Tensor:
        return x @ weight + torch.tensor([0.5, 1.5, 2.5, 3.5])

    f(torch.ones(2, 3))
    f.save(path, source_paths=True)
    return path


def faults(path: Path, kind: str, most: int) -> list[str]:
    """Prints a line for each size up to `most` megabytes; what is over the promise."""
    found: list[str] = []
    before = None
    for megabytes in (1, 2, 4, 8):
        if megabytes > most:
            break
        size = megabytes << 20
        try:
            took, cpu, said = grown(path, kind, size)
        except subprocess.TimeoutExpired:
            return [*found, f"{kind}: {megabytes} MB have no end"]
        print(
            f"{kind:32} {megabytes} MB {took / size:7.0f} bytes a byte {cpu:6.1f} s  {said[:80]}",
            flush=True,
        )
        if took > FREE + FOR_GRAPHS * size:
            found.append(f"{kind}: {megabytes} MB take {took / size:.0f} bytes a byte")
        if before and (took > 2.3 * max(before[0], FREE) or (cpu > 1 and cpu > 2.3 * before[1])):
            found.append(
                f"{kind}: {megabytes} MB take {took / before[0]:.1f} of the memory and {cpu / before[1]:.1f} of the time of half"
            )
        before = took, max(cpu, 0.01)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.growth", description=__doc__)
    parser.add_argument("--most", type=int, default=8, help="megabytes")
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = small(Path(folder) / "f.pt")
        found = [fault for kind in options.kinds for fault in faults(path, kind, options.most)]
    print("\n".join(found) or "nothing is over the promise")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
