"""docs/rules/when-does-it-retrace.md: each row of the table is true."""

import contextlib
import re
import threading
import warnings

import pytest
import torch
import tracehost
from conftest import ROOT

PAGE = (ROOT / "docs" / "rules" / "when-does-it-retrace.md").read_text(encoding="utf-8")
NAMES = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"`((?:f|reducing|declared|setattr|names\.scale)[(.][^`]+)`")


def rows():
    found = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and len(cells) >= 4 and cells[1].startswith("`"):
            found.append(cells + [""] * (5 - len(cells)))
    return found


@pytest.fixture
def names():
    default = torch.get_default_dtype()
    scope = {
        "__name__": "names",
        "in_thread": in_thread,
        "under": under,
        "with_default": with_default,
    }
    with contextlib.suppress(ImportError):
        import numpy

        scope["np"] = numpy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tracehost.RetraceWarning)
        exec(compile(NAMES, str(ROOT / "docs" / "names.py"), "exec"), scope)
        yield scope
    torch.set_default_dtype(default)
    tracehost.reset()


def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def under(mode, call):
    with mode:
        return call()


def with_default(dtype, call):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return call()
    finally:
        torch.set_default_dtype(before)


def traces(names, code):
    """Of one statement: traces of all Functions, those made in it included."""
    before = total()
    eval(code, names)
    return total() - before


def total():
    line = tracehost.report().splitlines()[-1] if tracehost.report() else ""
    return int(line.split()[3]) if line.startswith("total") else 0


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_row(names, row):
    _, first, second, answer, cure = row
    names.update(f=tracehost.function(names["body"]))
    assert traces(names, CODE.fullmatch(first)[1]) == 1
    assert traces(names, CODE.fullmatch(second)[1]) == {"yes": 1, "no": 0}[answer]
    for alternative in cure.split(";"):
        calls = CALL.findall(alternative)
        names.update(f=tracehost.function(names["body"]))
        for code in calls[:-1]:
            traces(names, code)
        assert len(calls) < 2 or traces(names, calls[-1]) == 0, calls


def test_the_table_is_read():
    assert len(rows()) > 35
