"""Archives changed by hand, with the hash that they should have: tests/fuzz has the tools."""

from pathlib import Path

import pytest
import tracehost
from fuzz.container import DEBUG, MANIFEST, SOURCE, packed, records, with_hash
from tracehost import ArchiveError

__all__ = ["DEBUG", "MANIFEST", "SOURCE", "changed", "error", "packed", "records", "with_hash"]


def changed(path: Path, record: str, old: bytes, new: bytes) -> None:
    """The file with another text in one record."""
    parts = records(path.read_bytes())
    assert old in parts[record], parts[record]
    parts[record] = parts[record].replace(old, new, 1)
    path.write_bytes(with_hash(packed(parts)))


def error(path: Path) -> str:
    """What load() and inspect say, without the path."""
    with pytest.raises(ArchiveError) as caught:
        tracehost.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") or text.startswith(f"{path} ")
    return text[len(str(path)) :].lstrip(": ")
