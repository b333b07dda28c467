"""The order of the folders: one may include only those above it, and none above interpreter/ knows of Python.

And what holds for those that do."""

import re
from pathlib import Path

import pytest
from conftest import ROOT

ORDER = [
    "include", "shapes", "signature", "event", "region", "tape", "capture", "program", "cache", "trace", "staging", "validate", "function", "report", "archive",
    "runtime", "interpreter", "embed", "cli",
]  # fmt: skip
# interpreter/ is libpython and nothing else; cli/ is interpreter/ and no other folder: the binary must not need torch.
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


def folders_included(file: Path) -> list[str]:
    return [
        folder_of(name)
        for kind, name in includes(file)
        if kind == '"' and "/" in name and not name.startswith("torch/")
    ]


HOST_FILES = [(folder, file) for folder in ORDER for file in sources(ROOT / "host" / folder)]


def test_every_folder_of_host_has_a_place_in_the_order():
    assert {p.name for p in (ROOT / "host").iterdir() if p.is_dir()} <= set(ORDER)


@pytest.mark.parametrize(
    ("folder", "file"), HOST_FILES, ids=[str(f.relative_to(ROOT)) for _, f in HOST_FILES]
)
def test_a_folder_includes_only_those_above_it(folder, file):
    allowed = ONLY.get(folder) or set(ORDER[: ORDER.index(folder) + 1])
    for included in folders_included(file):
        assert included in allowed, f"{folder}/ must not include {included}/"


@pytest.mark.parametrize(
    "file",
    [f for folder, f in HOST_FILES if ORDER.index(folder) < ORDER.index("interpreter")],
    ids=lambda f: str(f.relative_to(ROOT)),
)
def test_nothing_above_the_interpreter_knows_of_python(file):
    assert not [name for _, name in includes(file) if PYTHON.match(name)]


# The folders of the extension module. events.cpp and module.cpp, beside them, may include all.
BINDINGS = ["base", "numbers", "pytree", "guards", "observe", "hooks", "call", "concrete", "export"]
BINDINGS_SRC = ROOT / "bindings" / "src"
BINDINGS_FILES = [(folder, file) for folder in BINDINGS for file in sources(BINDINGS_SRC / folder)]


def test_every_folder_of_bindings_has_a_place_in_the_order_and_no_name_of_hosts():
    folders = {p.name for p in BINDINGS_SRC.iterdir() if p.is_dir()}
    assert folders == set(BINDINGS)
    assert not folders & set(ORDER)  # both are on the include path


@pytest.mark.parametrize(
    ("folder", "file"), BINDINGS_FILES, ids=[str(f.relative_to(ROOT)) for _, f in BINDINGS_FILES]
)
def test_a_folder_of_bindings_includes_only_those_above_it(folder, file):
    assert not [name for kind, name in includes(file) if kind == '"' and "/" not in name]
    allowed = set(BINDINGS[: BINDINGS.index(folder) + 1]) | set(ORDER)
    for included in folders_included(file):
        assert included in allowed, f"bindings/src/{folder}/ must not include {included}/"


def test_bindings_use_the_core_and_not_the_host():
    below = {"interpreter", "embed", "cli"}
    for file in sources(ROOT / "bindings"):
        used = set(folders_included(file))
        assert not used & below, f"{file} includes {used & below}"


# A variable of a function, or of a class in a function: `static auto x = ...`, `static T x{...}`, `static T x;`, and
# `static T x(import("m"))`, which a declaration of a function does not look like.
STATIC_LOCAL = re.compile(
    r"^[ \t]+static (?!constexpr |constinit |thread_local )(?:const )?"
    r"(?:[^(={;\n]*[={;]|[^(={;\n]*\((?:[^;{\n]*\(|[^;{\n]*\").*\);).*",
    re.MULTILINE,
)
# Runs no Python.
PLAIN = re.compile(
    r"= new [\w:<> *]+;"
    r"|static (?:const )?std::atomic<[\w:]+> \w+\{\w*\};"
    r"|static (?:const )?(?:std::)?(?:u?int\d+_t|size_t|bool|int) \w+(?:\[[^\]]*\])? = [\w{}]*;"
)
# In the core, which knows of Python by interfaces alone: names of libtorch's, looked up.
PLAIN_IN_CORE = re.compile(
    r"= (?:c10::Symbol::fromQualString|symbol)\(\"[\w:]+\"\);"
    r"|= op<[\w:() ,&*]+>\(\"[\w:]+\"\);"
    r"|static const c10::Symbol others\[\] = \{"
)
# Tables of the core that are made at their first use. A new one must ask nothing of Body, Frontend or a callback.
TABLES = {
    "host/archive/graph_values.cpp: static const std::array<SimpleType, 10> all = {",
    "host/archive/stored_tensors.cpp: static const auto all = [] {",
    "host/archive/torchscript_ops.cpp: static const auto unit = [] {",
    "host/archive/tree.cpp: static const std::unordered_set<std::string_view> others = {",
    "host/program/merge.cpp: static const std::set<std::string_view> names = {",
    "host/program/numbers.cpp: static const std::vector<const NumberOp *> all = [] {",
    "host/shapes/rules.cpp: static const auto rules = [] {",
    "host/trace/argument_stash.cpp: static const std::unordered_set<std::string> names = [] {",
    "host/trace/argument_stash.cpp: static const std::int64_t zeros[",
    "host/trace/messages.cpp: static const std::regex mark(",
    "host/trace/size_rules.cpp: static const auto rules = all_size_rules();",
}
KNOWS_PYTHON = ("bindings/", "host/interpreter/", "host/embed/")


def locks_of_cpp(name: str, text: str) -> list[str]:
    """The `static` locals of a file whose initialiser runs under a lock of C++ and may run Python."""
    core = not name.startswith(KNOWS_PYTHON)
    found = []
    for line in STATIC_LOCAL.findall(text):
        told = f"{name}: {line.strip()}"
        plain = PLAIN.search(line) or (core and PLAIN_IN_CORE.search(line))
        member = name.endswith(".h") and not any(c in line for c in "=({")
        if not plain and not member and not any(told.startswith(table) for table in TABLES):
            found.append(told)
    return found


def test_no_lock_of_cpp_is_held_where_python_may_run():
    """The initialiser of a `static` local runs under one: if it gives up the GIL, threads hang."""
    files = [f for folder in ("host", "bindings") for f in sources(ROOT / folder)]
    found = [line for f in files for line in locks_of_cpp(str(f.relative_to(ROOT)), f.read_text())]
    assert not found, "make it `static constinit Lazy<T>` (bindings/src/base/lazy.h): " + str(found)


@pytest.mark.parametrize(
    "line",
    [
        'static auto *const module = PyImport_ImportModule("enum");',
        'static const py::object convert = py::module_::import("m").attr("f");',
        'static py::object convert{py::module_::import("m")};',
        'static py::object convert(py::module_::import("m"));',
        'static Owned convert(PyImport_ImportModule("m"));',
        "static const auto names = [] {",
        "static PyObject *name = interned(text);",
        "static const Errors found = Errors();",
        "static std::vector<PyObject *> all;",
    ],
)
@pytest.mark.parametrize("file", ["bindings/new.cpp", "bindings/new.h", "host/embed/new.cpp", "host/trace/new.cpp"])  # fmt: skip
def test_a_static_whose_initialiser_may_run_python_is_found(file, line):
    if file.endswith(".h") and line == "static std::vector<PyObject *> all;":
        line = "static std::vector<PyObject *> all{};"
    assert locks_of_cpp(file, f"int f() {{\n  {line}\n}}\n") == [f"{file}: {line}"]


@pytest.mark.parametrize(
    "line",
    [
        "static constinit Lazy<PyObject *> convert;",
        "static constexpr int kMost = 4;",
        "static auto *const only = new Ledger;",
        "static std::atomic<std::uint64_t> last{0};",
        "static bool fits(const Node &node);",
        "static std::string text(const Node &node, std::size_t at = 0) {",
        "thread_local std::vector<const void *> kept;",
    ],
)
def test_a_static_without_such_an_initialiser_is_not(line):
    assert locks_of_cpp("bindings/new.cpp", f"  {line}\n") == []
