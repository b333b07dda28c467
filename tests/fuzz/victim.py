"""The process that loads mutants: it may die. Its last line says with which one, and doing what.

tracehost -m fuzz.victim SEED FIRST END FOLDER CORPUS
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import tracehost
from tracehost import ArchiveError
from tracehost import _archive as own

from .container import GRAPHS, MANIFEST, records
from .mutate import mutant

# What a load may take beside the file: docs/guides/archives.md.
FREE = 64 << 20
FOR_GRAPHS = 600  # a byte
FOR_MANIFEST = 200  # a byte, unpacked
SMALL = 64  # elements of a dimension that an argument is made with

watching = False
seen: list[str] = []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND


def audit(event: str, args: tuple[Any, ...]) -> None:
    """Python that runs, and files that are written, because of a file's content."""
    if not watching:
        return
    if event == "open" and isinstance(args[2], int) and args[2] & WRITES:
        seen.append(f"writes {args[0]}")
    if event in ("import", "exec", "compile", "os.system", "subprocess.Popen", "socket.connect", "pickle.find_class", "ctypes.dlopen"):  # fmt: skip
        seen.append(f"{event} {str(args)[:200]}")


def memory() -> tuple[int, int]:
    """What is resident now, and the most that was."""
    found = dict.fromkeys(("VmHWM", "VmRSS"), 0)
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value.split()[0]) << 10
    return found["VmRSS"], found["VmHWM"]


def before_a_load() -> int:
    """What is resident. The most that was is taken back where it would hide a peak; that takes a while."""
    now, most = memory()
    if most - now > FREE // 2:
        Path("/proc/self/clear_refs").write_text("5")
    return now


def bound(content: bytes) -> int:
    """The bytes that loading may take, by what docs/guides/archives.md says."""
    try:
        parts = records(content)
        manifest, graphs = (len(parts.get(name, b"")) for name in (MANIFEST, GRAPHS))
    except Exception:  # no zip of Python's: the largest that its size allows
        manifest = graphs = 2**62
    manifest = min(manifest, 32 * len(content) + (16 << 10))
    return FREE + len(content) + FOR_GRAPHS * min(graphs, len(content)) + FOR_MANIFEST * manifest


def value_of(tree: Any, tensors: list[torch.Tensor]) -> Any:
    """An argument of a manifest."""
    if not isinstance(tree, dict) or not tree:
        return tree
    kind, content = next(iter(tree.items()))
    if kind == "tensor":
        return tensors[content]
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(value_of(item, tensors) for item in content)
    if kind == "dict":
        return {value_of(k, tensors): value_of(v, tensors) for k, v in content}
    if kind in ("namedtuple", "record"):
        items = [value_of(item, tensors) for item in tree["items"]]
        return own.put_together(content, tree["fields"], kind == "record", items, [])
    if kind == "torch":
        return own.torch_constant(content)
    return own.member(content) if kind == "member" else float(content) if kind == "real" else None


def arguments(graph: dict[str, Any]) -> list[Any]:
    tensors = []
    for meta in graph["tensors"]:
        sizes = [4 if size is None else size for size in meta["sizes"]]
        if max(sizes, default=0) > SMALL or len(sizes) > 4:
            raise ValueError("larger than a test makes")
        tensors.append(torch.ones(sizes, dtype=own.torch_constant(meta["dtype"])))
    return [value_of(tree, tensors) for tree in graph["arguments"]]


def called(archive: tracehost.Archive, manifest: Any) -> None:
    for function in manifest["functions"]:
        for graph in function["specializations"][:3]:
            with contextlib.suppress(Exception):
                values = arguments(graph)
                kinds = [p["kind"] for p in function["parameters"]]
                args, kwargs = [], {}
                for p, kind, value in zip(function["parameters"], kinds, values):
                    if kind == "positional":
                        args.append(value)
                    elif kind == "var_positional":
                        args += value
                    elif kind == "keyword":
                        kwargs[p["name"]] = value
                    else:
                        kwargs |= value
                archive[function["name"]](*args, **kwargs)


class Victim:
    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "mutant.pt"
        self.room = folder / "room"  # where it runs: nothing is to appear there
        self.room.mkdir(exist_ok=True)
        os.chdir(self.room)

    def say(self, number: int, *words: object) -> None:
        os.write(1, (" ".join(map(str, (number, *words))) + "\n").encode())

    def check(self, number: int, step: str, f: Any) -> Any:
        """Its result; None after an ArchiveError. Anything else is reported."""
        global watching
        seen.clear()
        try:
            watching = True
            result = f()
        except ArchiveError as error:
            watching = False
            if not str(error).strip() or str(error).rstrip().endswith(":"):
                self.say(number, "finding", step, "an error without a text:", repr(str(error)))
            result = None
        except BaseException as error:
            watching = False
            self.say(
                number, "finding", step, f"{type(error).__name__}: {error}"[:300].replace("\n", " ")
            )
            result = None
        watching = False
        for what in dict.fromkeys(seen):
            self.say(number, "finding", step, what)
        if left := os.listdir(self.room):
            self.say(number, "finding", step, "wrote", *left)
            for name in left:
                os.unlink(self.room / name)
        return result

    def one(self, number: int, kind: str, content: bytes) -> None:
        self.file.write_bytes(content)
        self.say(number, "load", kind)
        before = before_a_load()
        archive = self.check(number, "load", lambda: tracehost.load(str(self.file)))
        took, most = memory()[1] - before, bound(content)
        if took > most:
            self.say(
                number,
                "finding",
                "load",
                f"takes {took:,} bytes, more than {most:,}, file of {len(content):,}",
            )
        if archive is None:
            return
        self.say(number, "inspect", kind)
        manifest = self.check(number, "inspect", lambda: own.manifest_of(str(self.file)))
        self.check(number, "inspect", lambda: (own.describe(archive), repr(archive)))
        self.check(number, "inspect", lambda: own.code_of(archive, 0) if len(archive) and len(next(iter(archive.values())).signatures) else "")  # fmt: skip
        self.say(number, "call", kind)
        if manifest is not None:
            called(archive, manifest)
        for name in os.listdir(self.room):
            self.say(number, "finding", "call", "wrote", name)
            os.unlink(self.room / name)
        self.say(number, "good", kind)


def main() -> None:
    seed, first, end, folder, corpus = sys.argv[1:]
    files = [path.read_bytes() for path in sorted(Path(corpus).glob("*.pt"))]
    warnings.simplefilter("ignore")
    errors = open(Path(folder) / "errors.txt", "w")  # for as long as the process lives  # noqa: SIM115
    sys.stderr = errors
    faulthandler.enable(errors)
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    victim = Victim(Path(folder))
    for content in files:  # what is imported late is imported now
        victim.file.write_bytes(content)
        with contextlib.suppress(Exception):
            archive = tracehost.load(victim.file)
            own.describe(archive)
            own.code_of(archive, 0)
            called(archive, own.manifest_of(str(victim.file)))
    sys.addaudithook(audit)
    for number in range(int(first), int(end)):
        victim.one(number, *mutant(int(seed), number, files))
    victim.say(int(end), "end")


if __name__ == "__main__":
    main()
