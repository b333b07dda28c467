"""Archives changed by hand, with the hash that they should have: tests/fuzz has the tools."""

from pathlib import Path

import pytest
import tracehost
from fuzz.container import CODE, DATA, GRAPHS, MANIFEST, packed, records, with_hash
from fuzz.graphs import (
    Miscounted,
    Op,
    Record,
    bits,
    branch,
    constant,
    decode,
    encode,
    end,
    first,
    last,
    loop,
)
from tracehost import ArchiveError

__all__ = ["CODE", "DATA", "GRAPHS", "MANIFEST", "Miscounted", "Op", "Record", "bits", "branch", "changed", "constant", "decode", "encode", "end", "error",
           "first", "last", "loop", "packed", "records", "rewritten", "with_hash"]  # fmt: skip


def changed(path: Path, record: str, old: bytes, new: bytes) -> None:
    """The file with another text in one record."""
    parts = records(path.read_bytes())
    assert old in parts[record], parts[record]
    parts[record] = parts[record].replace(old, new, 1)
    path.write_bytes(with_hash(packed(parts)))


def rewritten(path: Path, change) -> None:
    """The file with other graphs: `change` gets the Record."""
    parts = records(path.read_bytes())
    record = decode(parts[GRAPHS])
    change(record)
    parts[GRAPHS] = encode(record)
    path.write_bytes(with_hash(packed(parts)))


def error(path: Path) -> str:
    """What load() and inspect say, without the path."""
    with pytest.raises(ArchiveError) as caught:
        tracehost.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") or text.startswith(f"{path} ")
    return text[len(str(path)) :].lstrip(": ")
