"""Programs of c_code_programs.py: each call gives what eager gives. A guard follows what changes in between, or the trace serves its
own call."""

import linecache
import warnings

import pytest
import torch
import tracehost
from c_code_programs import HEADER, PROGRAMS

X = torch.ones(1)


def outcome(body):
    try:
        return body(X).tolist()
    except tracehost.Error:
        raise
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    setup, expression, changes = PROGRAMS[name]
    text = f"{HEADER}{setup}\ndef body(x):\n    return x * ({expression})\n"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names = {"__name__": __name__}
    exec(compile(text, file, "exec"), names)
    f = tracehost.function(names["body"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for change in ("", "", *changes, ""):
            exec(change, names)
            assert outcome(f) == outcome(names["body"]), f"after {change!r}"
