"""Whose code is this: the file says it, never the name of a module or of a folder."""

import statistics
import zipfile
from pathlib import Path

import numpy
import pytest
import torch
import tracehost
from tracehost._tracehost import origin

NET = """
import tracehost

SCALE = 2.0


class Config:
    scale = 3.0


def step(x):
    if x.sum() > 0:
        return x * SCALE * Config.scale
    return x


@tracehost.function
def caught(x):
    try:
        return x[x.sum().long()]
    except IndexError:
        return x
"""

MAIN = """
import warnings, torch, tracehost
from {module} import Config, caught, step
import {module} as net

f = tracehost.function(step)
x = torch.ones(2)
print(f(x).tolist())
net.SCALE = 4.0
print(f(x).tolist())
Config.scale = 5.0
print(f(x).tolist(), f(-x).tolist())
print(f.tracing_count(), "traces")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    caught(torch.zeros(2))
print([str(w.message).partition(" in a ")[0].partition(" calls ")[2] for w in seen])
"""

EXPECTED = "[6.0, 6.0]\n[12.0, 12.0]\n[20.0, 20.0] [-1.0, -1.0]\n3 traces\n['aten::select at {module}.py:20']\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def as_module(name):
    """A file beside the script, of this name."""

    def put(folder: Path):
        write(folder / f"{name}.py", NET)
        return name

    return put


def in_folder_called_torch(folder: Path):
    write(folder / "torch" / "net.py", NET)
    return "net", folder / "torch"


def in_zip(folder: Path):
    with zipfile.ZipFile(folder / "code.zip", "w") as archive:
        archive.writestr("net.py", NET)
    return "net", folder / "code.zip"


PLACES = {
    "sched.py": as_module("sched"),
    "statistics.py": as_module("statistics"),
    "trace.py": as_module("trace"),
    "a folder torch": in_folder_called_torch,
    "a zip": in_zip,
}


@pytest.mark.parametrize("place", PLACES)
def test_what_the_users_code_is_called_does_not_matter(run_host, tmp_path, place):
    put = PLACES[place](tmp_path)
    module, path = put if isinstance(put, tuple) else (put, tmp_path)
    # torch has imported the library's module of that name before.
    before = (
        f"import torch, sys\nsys.modules.pop({module!r}, None)\nsys.path.insert(0, {str(path)!r})\n"
    )
    write(tmp_path / "program" / "main.py", before + MAIN.format(module=module))
    done = run_host(tmp_path / "program" / "main.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == EXPECTED.format(module=module)


def test_each_kind_of_file_has_its_origin():
    here = {
        torch.__file__: "torch",
        torch.nn.__file__: "torch",
        statistics.__file__: "python",
        numpy.__file__: "python",
        pytest.__file__: "package",
        tracehost.__file__: "tracehost",
        __file__: "user",
        "<string>": "user",
        "<frozen importlib._bootstrap>": "python",
        "<ipython-input-1-0>": "user",
        "/home/me/torch/net.py": "user",
        "/home/me/site-packages.py": "user",
    }
    assert {file: origin(file) for file in here} == here
