"""Whose code is this: the file says it, never the name of a module or of a folder."""

import statistics
import sys
import zipfile
from pathlib import Path

import numpy
import pytest
import torch
import tracehost
from tracehost._tracehost import origin

NET = """
import torch
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
    tracehost.py_function(lambda x: x, [x], torch.float32)  # no graph undoes it
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

EXPECTED = "[6.0, 6.0]\n[12.0, 12.0]\n[20.0, 20.0] [-1.0, -1.0]\n3 traces\n['aten::select at {module}.py:22']\n"


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


PACKAGE = """
def read(x):
    return x.numpy()


def pick(x, i):
    return x.index_select(0, i)


def call(step, x):
    return step(x)
"""

USES_PACKAGE = """
import warnings, torch, tracehost
from layers import drop

@tracehost.function
def f(x):
    y = x * 2
    return drop.read(y)

@tracehost.function
def g(x, i):
    return drop.pick(x, i) * 2

own = tracehost.function(drop.read)
for call in (lambda: f(torch.ones(2)), lambda: own(torch.ones(2))):
    try:
        call()
    except tracehost.ValueReadError as error:
        print(str(error).partition(", which")[0])
g(torch.ones(2), torch.tensor(0))
try:
    g(torch.ones(2), torch.tensor(5))
except IndexError as error:
    print(error.__notes__[0])

@tracehost.function
def size(x):
    return x

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for n in range(1, 6):
        drop.call(size, torch.ones(n))
print(str(seen[0].message).splitlines()[1])
print(seen[0].filename.rpartition("/")[2], seen[0].lineno)
"""


def test_the_users_line_comes_before_the_line_of_a_package(run_host, tmp_path):
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = tmp_path / "base" / "lib" / version / "site-packages"
    write(packages / "layers" / "__init__.py", "")
    write(packages / "layers" / "drop.py", PACKAGE)
    write(tmp_path / "main.py", USES_PACKAGE)
    environment = {"PYTHONUSERBASE": str(tmp_path / "base"), "PYTHONPATH": str(packages)}
    done = run_host(tmp_path / "main.py", env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "the body reads the value of a traced tensor (Tensor.numpy) at main.py:8 (in layers/drop.py:3)",
        "the body reads the value of 'x' (Tensor.numpy) at layers/drop.py:3",
        "in g (main.py:10), the op at main.py:12 (in layers/drop.py:7)",
        "  why   argument 'x', dimension 0, took 5 values (1, 2, 3, 4, 5), from main.py:33 (in layers/drop.py:11)",
        "main.py 33",
    ]
