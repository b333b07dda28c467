"""`_tracehost.pyi` has what is public of the extension module, its classes with all their members."""

import ast
import importlib
from pathlib import Path

import pytest
import torch
import tracehost
from tracehost import _tracehost

STUB = ast.parse(Path(tracehost.__file__).with_name("_tracehost.pyi").read_text())


def names(body):
    found = set()
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
    return found


def shown(names_):
    return {name for name in names_ if not name.startswith("__")}


def test_the_public_names():
    there = {
        name
        for name in tracehost.__all__
        if getattr(tracehost, name) is getattr(_tracehost, name, None)
    }
    assert names(STUB.body) == there | {"__getattr__"}


@pytest.mark.parametrize(
    "declared", [node for node in STUB.body if isinstance(node, ast.ClassDef)], ids=lambda c: c.name
)
def test_every_name_of_a_class(declared):
    actual = shown(vars(getattr(_tracehost, declared.name)))
    assert shown(names(declared.body)) == actual - {"_pybind11_conduit_v1_", "_repr_html_"}


def test_what_it_imports_of_the_package_is_there():
    relative = [n for n in STUB.body if isinstance(n, ast.ImportFrom) and n.level]
    assert relative
    for node in relative:
        module = importlib.import_module(f".{node.module}", "tracehost")
        assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def test_a_function_type_takes_parameters():
    alias = tracehost.Function[[torch.Tensor], int]
    assert alias.__origin__ is tracehost.Function
    assert isinstance(tracehost.function(lambda x: 1), alias.__origin__)
