"""The order of the Python packages' folders: one may import only those above it, wherever the import stands.

So each folder can be read with what is above it in mind, and nothing else. No two files import each other, either
directly or through others.
"""

import ast
from pathlib import Path

import pytest
from conftest import ROOT

BINDINGS = ROOT / "bindings"
# Which of these a package may import.
PACKAGES = {
    "tracehost": {"tracehost", "tracehost_lock"},
    "tracehost_commands": {
        "tracehost",
        "tracehost_commands",
        "tracehost_interception",
        "tracehost_lock",
    },
    "tracehost_interception": {"tracehost", "tracehost_interception"},
    "tracehost_lock": {"tracehost_lock"},
    "tracehost_pytest": {"tracehost_pytest"},
}
# Of each package, what imports none of the others first: a folder, a tuple of folders and modules, or "", the rest.
ORDER = {
    "tracehost": [
        ("_bytecode", "_cells", "_counterparts", "_errors", "_init_scope", "_switches", "_tracehost", "_versions"), "_arguments", "_traced",
        # A call of map_fn in converted code converts its function, and map_fn is a loop that autograph stages.
        ("autograph", "_tensor_arrays"), "_python_ops",
        ("_archive", "_as_function", "_classes_like", "_concrete", "_embed", "_embed_arguments", "_function"), "_reports", "",
    ],
    "tracehost/autograph": ["conversion", "staging", "run", ""],
    "tracehost_commands": [
        ("errors", "files", "options", "commands", "reading", "signals", "running", "target", "arguments"), "notebook", "bench", "fix",
        "doctor", "",
    ],
    "tracehost_interception": [
        ("call_site", "messages", "modules", "replace", "targets"), "functions", "scripted",
        ("torch_compile", "torch_jit"), "decorators", "apply", "main_program", ("imports", "unmet"), "",
    ],
    "tracehost_lock": [""],
    "tracehost_pytest": [""],
}  # fmt: skip
LARGEST = 20  # modules of a folder, its overview not counted


def modules(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*.py") if p.name != "__init__.py")


def folders(package: str) -> list[str]:
    names = [n for place in ORDER[package] for n in ([place] if isinstance(place, str) else place)]
    return [name for name in names if name and (BINDINGS / package / name).is_dir()]


def place_of(package: str, module: str) -> int:
    """Of a module, by its name in the package: the index in the package's order."""
    first = module.split(".")[0]
    for index, place in enumerate(ORDER[package]):
        if first in place if isinstance(place, tuple) else first == place:
            return index
    return ORDER[package].index("")


def imports(file: Path) -> list[tuple[int, str]]:
    """Line, and absolute name of each module that the file imports, relative ones resolved."""
    package = file.relative_to(BINDINGS).parts[:-1]
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            # `from .a import b`: b may be a module of the folder a.
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def against_the_order(package: str, file: Path) -> list[str]:
    """The file's imports of what stands below it."""
    dotted = package.replace("/", ".") + "."
    own = ".".join(file.relative_to(BINDINGS / package).with_suffix("").parts)
    return [
        f"{file.relative_to(BINDINGS)}:{line} imports {name}"
        for line, name in imports(file)
        if name.startswith(dotted)
        and place_of(package, name.removeprefix(dotted)) > place_of(package, own)
    ]


def file_of(name: str) -> Path | None:
    """The file whose names an import of `name` takes, of those here."""
    path = BINDINGS / name.replace(".", "/")
    there = path.with_suffix(".py"), path.with_suffix(".pyi"), path / "__init__.py"
    return next((file for file in there if file.exists()), None)


def circles() -> list[str]:
    """The files that import each other in a circle, by an import anywhere in them, and those between circles.

    That Python runs a folder's __init__.py before a file in it does not count; that a file imports a name
    from it does.
    """
    below = {
        file: {
            found
            for _, name in imports(file)
            if (found := file_of(name) or file_of(name.rpartition(".")[0])) and found != file
        }
        for file in BINDINGS.rglob("*.py")
    }
    while leaves := [file for file, found in below.items() if not found & below.keys()]:
        for file in leaves:
            del below[file]
    while tops := below.keys() - set().union(*below.values()):
        for file in tops:
            del below[file]
    return sorted(str(file.relative_to(BINDINGS)) for file in below)


FILES = [
    (package, file) for package in ORDER for file in sorted((BINDINGS / package).rglob("*.py"))
]


@pytest.mark.parametrize("package", ORDER)
def test_every_folder_of_a_package_has_a_place_in_the_order(package):
    there = {p.name for p in (BINDINGS / package).iterdir() if p.is_dir()} - {"__pycache__"}
    assert there == set(folders(package))


@pytest.mark.parametrize(
    ("package", "file"), FILES, ids=[str(f.relative_to(BINDINGS)) for _, f in FILES]
)
def test_a_module_imports_only_what_is_above_it(package, file):
    assert against_the_order(package, file) == []


def test_no_files_import_each_other_in_a_circle():
    assert circles() == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from . import b", "from . import a"),
        ("from .b import f", "def f():\n    from .a import g"),
        ("import tracehost.b", "class C:\n    def f(self):\n        import tracehost.a"),
        ("from . import VERSION", ""),
    ],
)
def test_a_circle_of_files_is_found(tmp_path, monkeypatch, first, second):
    monkeypatch.setitem(globals(), "BINDINGS", tmp_path)
    folder = tmp_path / "tracehost"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .a import f\nVERSION = 1")
    (folder / "a.py").write_text(first)
    (folder / "b.py").write_text(second)
    (folder / "alone.py").write_text("from . import a, b")
    init = ["tracehost/__init__.py"] if "VERSION" in first else []
    assert circles() == [*init, "tracehost/a.py", *(["tracehost/b.py"] if second else [])]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_those_that_it_may(package):
    wrong = [
        f"{file.relative_to(BINDINGS)}:{line} imports {name}"
        for file in sorted((BINDINGS / package).rglob("*.py"))
        for line, name in imports(file)
        if (of := name.split(".")[0]) in PACKAGES and of not in PACKAGES[package]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "folder", sorted({f.parent for _, f in FILES}), ids=lambda f: str(f.relative_to(BINDINGS))
)
def test_a_folder_has_an_overview_and_is_no_drawer(folder):
    overview = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert overview
    if folder.name != "tracehost":  # whose docstring is for users
        assert [m.name for m in modules(folder) if m.name not in overview] == []
    assert len(modules(folder)) <= LARGEST


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tracehost/autograph/conversion/compile.py", "from ..run import operators"),
        ("tracehost/autograph/conversion/compile.py", "from ..run.operators import call"),
        ("tracehost/autograph/conversion/compile.py", "import tracehost.autograph.run.operators"),
        ("tracehost/autograph/staging/state.py", "def f():\n    from .. import run"),
        ("tracehost/autograph/run/calls.py", "from .. import to_code"),
        ("tracehost_commands/errors.py", "from .notebook import runner"),
        ("tracehost/_arguments/values.py", "from .._traced.fake_tensors import Maker"),
        ("tracehost/_traced/fake_tensors.py", "from .. import _function"),
        ("tracehost_interception/targets.py", "from . import apply"),
    ],
)
def test_an_import_against_the_order_is_found(tmp_path, monkeypatch, file, text):
    monkeypatch.setitem(globals(), "BINDINGS", tmp_path)
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    package = max((p for p in ORDER if file.startswith(p + "/")), key=len)
    assert len(against_the_order(package, tmp_path / file)) == 1
