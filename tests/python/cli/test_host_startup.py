"""The binary stays small: no torch in it, nothing imported for us before the user's program."""

import subprocess

import pytest
from conftest import HOST, HOST_PYTHON


@pytest.mark.parametrize("binary", [HOST, HOST_PYTHON], ids=lambda path: path.name)
def test_links_neither_torch_nor_boost(binary):
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    assert any(name.startswith("libpython3.") for name in names)
    assert not [
        n
        for n in names
        if any(word in n for word in ("torch", "c10", "boost", "tracehost", "cuda"))
    ]
    assert "not found" not in listed


def test_both_names_are_one_binary():
    assert HOST.read_bytes() == HOST_PYTHON.read_bytes()
    assert not HOST.is_symlink() and not HOST_PYTHON.is_symlink()


def test_imports_nothing_of_ours_at_start(run_host):
    code = "import sys; print([m for m in sys.modules if m.split('.')[0] in ('torch', 'numpy', 'tracehost')])"
    assert run_host("-c", code).stdout == "[]\n"
    # Also with a report asked for: it is the program that imports tracehost.
    assert run_host("--report", "-c", code).stdout == "[]\n"


def test_a_users_torch_py_does_not_stop_the_host(run_host, tmp_path):
    (tmp_path / "torch.py").write_text("raise RuntimeError('the wrong torch')\n")
    (tmp_path / "s.py").write_text("print('fine')\n")
    result = run_host("--report", "s.py")
    assert (result.returncode, result.stdout) == (0, "fine\n")


def test_loads_the_libpython_it_was_built_for(run_host):
    code = (
        "import re; from pathlib import Path\n"
        "print(*{line.split()[-1] for line in open('/proc/self/maps') if re.search(r'/libpython3\\.\\d+\\.so', line)})"
    )
    loaded = run_host("-c", code).stdout.split()
    assert len(loaded) == 1
    assert loaded[0] in run_host("doctor").stdout
