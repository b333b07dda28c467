"""Notebook files: old ones, damaged ones; parameters; streams. Without a kernel."""

import json
import math
import os

import nbformat
import pytest
from nbformat import v4
from notebook_support import notebook
from tracehost_commands import files
from tracehost_commands.errors import MissingPackage, UsageError, need
from tracehost_commands.notebook import document, parameters
from tracehost_commands.notebook.streams import add_stream

BROKEN = [
    ("", "is not a notebook: it is empty"),
    ("print(1)\n", "is not a notebook: it is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ('{"cells": [', "is not a notebook: it is not JSON: Expecting value: line 1 column 12 (char 11)"),
    ("[1]", "is not a notebook: it is JSON, but without a number 'nbformat'"),
    ("{}", "is not a notebook: it is JSON, but without a number 'nbformat'"),
    ('{"nbformat": 4}', "is not a notebook: it has no list 'cells'"),
    ('{"nbformat": 5}', "is of notebook format 5; up to 4 can be read: pip install -U nbformat"),
    ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{}]}', "is a damaged notebook: "),
    ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [3]}', "is a damaged notebook: "),
    ('{"nbformat": 3, "nbformat_minor": 0, "metadata": {}}', "is a damaged notebook: "),
    (b"\xff\xfe\x00", "is not a notebook: 'utf-8' codec can't decode"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_file_that_is_no_notebook(tmp_path, content, message):
    file = tmp_path / "n.ipynb"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as raised:
        document.read(str(file))
    text = str(raised.value)
    assert text.startswith(f"{file} {message}") and "\n" not in text
    if not message.endswith((": ", "decode")):
        assert text == f"{file} {message}"


def test_a_notebook_of_format_3(tmp_path):
    cell = {
        "cell_type": "code",
        "input": ["a = 1\n", "a"],
        "outputs": [],
        "language": "python",
        "prompt_number": 3,
    }
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": "old"}, "worksheets": [{"cells": [cell, cell]}]}  # fmt: skip
    file = tmp_path / "n.ipynb"
    file.write_text(json.dumps(old))
    made = document.read(str(file))
    assert (made.nbformat, made.nbformat_minor) == (4, 5)
    assert [cell.source for cell in made.cells] == ["a = 1\na"] * 2
    assert [cell.id for cell in made.cells] == ["cell-0", "cell-1"]
    assert [cell.id for cell in document.read(str(file)).cells] == ["cell-0", "cell-1"]
    nbformat.validate(made)


def test_what_is_unknown_is_kept(tmp_path):
    made = notebook("1", "2", mine={"deep": [1]})
    made.cells[0].metadata.update(collapsed=True, mine=[2])
    made.cells[1]["id"] = made.cells[0]["id"]
    file = tmp_path / "n.ipynb"
    file.write_text(json.dumps(made))
    read = document.read(str(file))
    assert read.metadata == made.metadata and read.cells[0].metadata == made.cells[0].metadata
    assert [cell.id for cell in read.cells] == ["c0", "cell-1"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "n.ipynb"
    files.write(file, "first")
    os.chmod(file, 0o640)
    link = tmp_path / "link.ipynb"
    link.symlink_to(file)
    files.write(link, "second")
    assert (
        link.is_symlink() and file.read_text() == "second" and file.stat().st_mode & 0o777 == 0o640
    )

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError):
        files.write(file, "third")
    assert file.read_text() == "second"
    assert sorted(os.listdir(tmp_path)) == ["link.ipynb", "n.ipynb"]


GIVEN = [
    ("a=1", 1), ("a=1.5", 1.5), ("a=-2", -2), ("a=1e-3", 1e-3), ("a=True", True), ("a=true", True), ("a=null", None),
    ("a=None", None), ("a=[1, 'x']", [1, "x"]), ("a={'k': 2}", {"k": 2}), ("a=text", "text"), ("a='1'", "1"), ("a=", ""),
    ("a=007", "007"), ("a=b=c", "b=c"), ("a=os.system('x')", "os.system('x')"), ("a=inf", float("inf")),
]  # fmt: skip


@pytest.mark.parametrize(("word", "value"), GIVEN, ids=[g[0] for g in GIVEN])
def test_values(word, value):
    found = parameters.given([word], [])["a"]
    assert found == value and type(found) is type(value)
    made = notebook("a")
    parameters.inject(made, {"a": value}, "n.ipynb")
    names = {}
    exec(made.cells[0].source, names)
    assert names["a"] == value and type(names["a"]) is type(value)


def test_values_of_files(tmp_path):
    (tmp_path / "p.json").write_text('{"a": 1, "b": [null, true]}')
    (tmp_path / "p.yml").write_text("a: text\nwhen: 2026-01-02\nnan: .nan\nends: [-.inf, .inf]\n")
    files = [str(tmp_path / "p.json"), str(tmp_path / "p.yml")]
    found = parameters.given(["b=3"], files)
    assert (
        list(found) == ["a", "b", "when", "nan", "ends"]
        and found["a"] == "text"
        and found["b"] == 3
    )
    made = notebook("x")
    parameters.inject(made, found, "n.ipynb")
    names = {}
    exec(made.cells[0].source, names)
    assert names["when"] == "2026-01-02" and names["nan"] != names["nan"]
    assert names["ends"] == [-math.inf, math.inf]
    for content, message in [("[1]", "must hold names and values"), ("{", "is not JSON"), ('{"a b": 1}', "a Python name")]:  # fmt: skip
        (tmp_path / "p.json").write_text(content)
        with pytest.raises(UsageError, match=message):
            parameters.given([], files[:1])
    for content in ("a: [", "a: 2026-13-01"):  # no month of that number
        (tmp_path / "p.yml").write_text(content)
        with pytest.raises(UsageError, match="is not YAML"):
            parameters.given([], files[1:])
    with pytest.raises(UsageError, match="cannot read the parameters of none.json"):
        parameters.given([], ["none.json"])


def test_where_parameters_go():
    made = notebook("first", ("alpha: float = 0.1\nname = 'x'", "parameters"), "last")
    parameters.inject(made, {"alpha": 2}, "n.ipynb")
    parameters.inject(made, {"alpha": 3}, "n.ipynb")
    assert [cell.source for cell in made.cells][2:] == ["# Parameters\nalpha = 3", "last"]
    assert made.cells[2].metadata.tags == ["injected-parameters"]
    with pytest.raises(UsageError, match=r"has no parameter 'alhpa'; did you mean 'alpha'\?"):
        parameters.inject(made, {"alhpa": 1}, "n.ipynb")
    parameters.inject(made, {}, "n.ipynb")
    assert len(made.cells) == 3
    without = notebook("first")
    parameters.inject(without, {"any": 1}, "n.ipynb")
    assert [cell.source for cell in without.cells] == ["# Parameters\nany = 1", "first"]
    assert parameters.listing(made) == "alpha = 0.1\nname = 'x'\n"
    assert parameters.listing(without) == "no cell is tagged `parameters`\n"


def test_streams():
    outputs = []
    for name, text in [("stdout", "a\n"), ("stderr", "x\n"), ("stdout", "10 %\r"), ("stdout", "20 %\r"), ("stderr", "ab\b")]:  # fmt: skip
        add_stream(outputs, name, text)
    assert [(o.name, o.text) for o in outputs] == [("stdout", "a\n20 %\r"), ("stderr", "x\na")]
    outputs.append(v4.new_output("display_data", data={"text/plain": "1"}))
    add_stream(outputs, "stderr", "late\n")
    add_stream(outputs, "stdout", "later\r\n")
    assert [o.get("name") for o in outputs] == ["stdout", "stderr", None, "stdout", "stderr"]
    assert outputs[3].text == "later\r\n"


def test_a_package_that_is_missing_is_named_as_pip_knows_it():
    need("nbformat", what="this")
    with pytest.raises(MissingPackage) as raised:
        need("nbformat", "no_such_thing:no-such-thing", "nor_this", what="--x")
    assert raised.value.code == 69
    assert str(raised.value) == (
        "--x needs no-such-thing and nor_this, which are not installed: pip install no-such-thing nor_this"
    )
