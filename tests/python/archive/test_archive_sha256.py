"""load(path, sha256=...): the digest of the bytes that are used."""

import hashlib
import subprocess

import pytest
import torch
import tracehost
from tracehost import ArchiveError
from tracehost_commands import inspect
from tracehost_commands.reading import read


@pytest.fixture
def path(tmp_path):
    weight = torch.rand(300, 100)
    f = tracehost.function(lambda x: x @ weight, name="f")
    f(torch.rand(2, 300))
    f.save(tmp_path / "f.pt")
    return tmp_path / "f.pt"


def test_it_is_what_sha256sum_prints(path, capsys):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    printed = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout
    assert printed.split()[0] == digest
    for given in (digest, digest.upper(), ""):
        archive = tracehost.load(path, sha256=given)
        assert archive.sha256 == digest
        assert archive["f"](torch.rand(2, 300)).shape == (2, 100)
    assert tracehost.load(path).sha256 == ""
    assert inspect.main(*read("inspect", [str(path)])) == 0
    assert f"\nsha256 {digest}\n" in capsys.readouterr().out


def test_another_file_is_rejected(path):
    digest, other = hashlib.sha256(path.read_bytes()).hexdigest(), "0" * 64
    with pytest.raises(ArchiveError) as caught:
        tracehost.load(path, sha256=other)
    assert str(caught.value) == (
        f"{path}: its SHA-256 is {digest}, not {other}. Fetch the file that has this digest, or give the digest of "
        "this file."
    )


@pytest.mark.parametrize("given", ["12", "x" * 64, "0" * 63, "0" * 65, "sha256:" + "0" * 64])
def test_what_is_no_digest_is_an_error(path, given):
    with pytest.raises(ArchiveError) as caught:
        tracehost.load(path, sha256=given)
    assert str(caught.value) == (
        f"{path}: sha256='{given}' is not a SHA-256: give its 64 hex digits, as sha256sum prints them"
    )
