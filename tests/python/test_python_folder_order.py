"""The order of the Python packages' folders: one may import only those above it, wherever the import stands.

So each folder can be read with what is above it in mind, and nothing else.
"""

import ast
from pathlib import Path

import pytest
from conftest import ROOT

BINDINGS = ROOT / "bindings"
# Of each package: its folders, first what imports none of the others. "" is the package's own modules.
ORDER = {
    "tracehost/autograph": ["conversion", "staging", "run", ""],
}
LARGEST = 24  # modules of a folder, its overview not counted


def modules(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*.py") if p.name != "__init__.py")


def imports(file: Path) -> list[tuple[int, str]]:
    """Line, and absolute name of each module that the file imports, relative ones resolved."""
    package = ".".join(file.relative_to(BINDINGS).parts[:-1])
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            # `from .a import b`: b may be a module of the folder a.
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def folder_in(package: str, name: str) -> str | None:
    """Which of the package's folders the module is in; None: it is not of the package."""
    dotted = package.replace("/", ".") + "."
    if not name.startswith(dotted):
        return None
    first = name.removeprefix(dotted).split(".")[0]
    return first if first and first in ORDER[package] else ""


FILES = [
    (package, folder, file)
    for package, folders in ORDER.items()
    for folder in folders
    for file in sorted((BINDINGS / package / folder).glob("*.py"))
]


@pytest.mark.parametrize("package", ORDER)
def test_every_folder_of_a_package_has_a_place_in_the_order(package):
    folders = {p.name for p in (BINDINGS / package).iterdir() if p.is_dir()} - {"__pycache__"}
    assert folders == set(ORDER[package]) - {""}


@pytest.mark.parametrize(
    ("package", "folder", "file"), FILES, ids=[str(f.relative_to(BINDINGS)) for *_, f in FILES]
)
def test_a_folder_imports_only_those_above_it(package, folder, file):
    allowed = ORDER[package][: ORDER[package].index(folder) + 1]
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for line, name in imports(file)
        if (of := folder_in(package, name)) is not None and of not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize(
    "folder", sorted({f.parent for *_, f in FILES}), ids=lambda f: str(f.relative_to(BINDINGS))
)
def test_a_folder_has_an_overview_and_is_no_drawer(folder):
    overview = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert overview and len(overview.splitlines()) >= 5
    unnamed = [m.name for m in modules(folder) if m.name not in overview]
    assert not unnamed or folder.name in ("autograph", "tracehost"), (
        f"not in the overview: {unnamed}"
    )
    assert len(modules(folder)) <= LARGEST


def test_an_import_that_runs_the_other_way_is_found(tmp_path, monkeypatch):
    file = tmp_path / "tracehost" / "autograph" / "conversion" / "compile.py"
    file.parent.mkdir(parents=True)
    file.write_text("from ..run import operators\ndef f():\n    from ..staging.state import kind\n")
    monkeypatch.setitem(globals(), "BINDINGS", tmp_path)
    names = [name for _, name in imports(file)]
    assert [folder_in("tracehost/autograph", n) for n in names] == ["run", "staging"]
