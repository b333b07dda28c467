"""The order of the folders: one may include only those above it, and none above interpreter/ knows of Python.

And what holds for those that do."""

import re
from pathlib import Path

import pytest
from conftest import ROOT

ORDER = [
    "include", "shapes", "signature", "event", "program", "cache", "trace", "staging", "validate", "function", "report", "archive",
    "runtime", "interpreter", "embed", "cli",
]  # fmt: skip
# interpreter/ is libpython and nothing else; cli/ is interpreter/ and nothing else of ours: the binary must not need torch.
ONLY = {"interpreter": {"interpreter"}, "cli": {"interpreter", "cli"}}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
PYTHON = re.compile(
    r"^(Python\.h|pybind11/|torch/extension\.h|torch/csrc/utils/pybind|torch/csrc/autograd/python_|torch/python\.h)"
)


def sources(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cpp"))


def includes(file: Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(file.read_text())


def folder_of(include: str) -> str:
    first = include.split("/")[0]
    return "include" if first == "tracehost" else first


HOST_FILES = [(folder, file) for folder in ORDER for file in sources(ROOT / "host" / folder)]


def test_every_folder_of_host_has_a_place_in_the_order():
    assert {p.name for p in (ROOT / "host").iterdir() if p.is_dir()} <= set(ORDER)


@pytest.mark.parametrize(
    ("folder", "file"), HOST_FILES, ids=[str(f.relative_to(ROOT)) for _, f in HOST_FILES]
)
def test_a_folder_includes_only_those_above_it(folder, file):
    allowed = ONLY.get(folder) or set(ORDER[: ORDER.index(folder) + 1])
    for kind, name in includes(file):
        if kind == '"' and "/" in name and not name.startswith("torch/"):
            assert folder_of(name) in allowed, f"{folder}/ must not include {name}"


@pytest.mark.parametrize(
    "file",
    [f for folder, f in HOST_FILES if ORDER.index(folder) < ORDER.index("interpreter")],
    ids=lambda f: str(f.relative_to(ROOT)),
)
def test_nothing_above_the_interpreter_knows_of_python(file):
    assert not [name for _, name in includes(file) if PYTHON.match(name)]


def test_bindings_use_the_core_and_not_the_host():
    below = {"interpreter", "embed", "cli"}
    for file in sources(ROOT / "bindings"):
        used = {folder_of(name) for kind, name in includes(file) if kind == '"' and "/" in name}
        assert not used & below, f"{file} includes {used & below}"


# Up to what tells a variable from a function.
STATIC_LOCAL = re.compile(
    r"^\s+static (?!constexpr |constinit |thread_local )[^(={;]*[={;].*", re.MULTILINE
)
# Runs no Python.
PLAIN_NEW = re.compile(r"= new [\w:<> *]+;")


@pytest.mark.parametrize("folder", ["bindings", "host/interpreter", "host/embed"])
def test_no_lock_of_cpp_is_held_where_python_may_run(folder):
    """The initialiser of a `static` local runs under one: if it gives up the GIL, threads hang."""
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in sources(ROOT / folder)
        for line in STATIC_LOCAL.findall(file.read_text())
        if file.suffix == ".cpp" and not PLAIN_NEW.search(line)
    ]
    assert not found, "make it `static constinit Lazy<T>` (bindings/guards/lazy.h): " + str(found)
