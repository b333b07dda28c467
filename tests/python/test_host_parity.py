"""The host against the venv's python3: standard output, standard error and exit status, row by row."""

import re
import signal
import subprocess

import pytest
from conftest import HOST, HOST_PYTHON, PYTHON, clean_environment
from parity_table import ROWS, Row

PERSONALITIES = {"tracehost": HOST, "tracehost-python": HOST_PYTHON}
CASES = [
    (row, name) for row in ROWS for name in PERSONALITIES if not (row.slow and name != "tracehost")
]


def prepare(row: Row, exe, folder) -> list:
    folder.mkdir(parents=True)
    for name, content in row.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.replace("{exe}", str(exe)).encode()
        path.write_bytes(content)
    if row.shell:
        return ["bash", "-c", row.shell.replace("{exe}", str(exe))]
    return [exe, *row.args]


def run(row: Row, exe, folder) -> tuple[int, str, str]:
    command = prepare(row, exe, folder)
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=clean_environment(**row.env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first = b""
    if row.send:
        first = process.stdout.readline()
        process.send_signal(row.send)
    try:
        out, err = process.communicate(row.stdin.encode(), timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, plain(first + out, exe, folder), plain(err, exe, folder)


def plain(output: bytes, exe, folder) -> str:
    """Without what two runs of one program differ in: its own path, the folder, addresses, process ids."""
    text = output.decode("utf-8", "backslashreplace").replace(str(folder), "<folder>")
    # The longer names first: one is the beginning of the other.
    for path in (HOST_PYTHON, HOST, PYTHON):
        text = text.replace(str(path), "<python>")
    text = re.sub(r"\bpid[= ]\d+|0x[0-9a-fA-F]+|ForkServerProcess-\d+", "<n>", text)
    text = re.sub(r"(bash: line \d+:) +\d+ ", r"\1 ", text)
    return re.sub(r"(\d+\.)?\d+s\b", "<time>", text)


_expected: dict[str, tuple[int, str, str]] = {}


def expected(row: Row, tmp_path_factory) -> tuple[int, str, str]:
    """What python3 does: asked once for all personalities."""
    if row.name not in _expected:
        _expected[row.name] = run(row, PYTHON, tmp_path_factory.mktemp("python") / "w")
    return _expected[row.name]


@pytest.mark.parametrize(("row", "personality"), CASES, ids=[f"{r.name}-{p}" for r, p in CASES])
def test_as_python(row, personality, tmp_path_factory):
    status, out, err = expected(row, tmp_path_factory)
    host = run(row, PERSONALITIES[personality], tmp_path_factory.mktemp("host") / "w")
    if row.status is not None:
        wanted = row.status if row.status >= 0 else signal.Signals(-row.status).name
        assert status == row.status, f"the row is wrong about python3: {wanted}"
    assert host == (status, out, err)


def test_the_table_is_long_enough():
    assert len(ROWS) >= 30
    assert len({row.name for row in ROWS}) == len(ROWS), "two rows have one name"
