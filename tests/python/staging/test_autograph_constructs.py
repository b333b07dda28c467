"""Each construct, converted, does to Python values what Python does: results, exceptions, order, places."""

import construct_definitions
import construct_statements
import pytest
from autograph_support import CHECKED, checked, same
from construct_registry import CASES, LOG, NUMBERS
from tracehost import autograph
from tracehost.autograph.run.calls import convert_callable

MODULES = (construct_statements, construct_definitions)  # each fills CASES


@pytest.mark.parametrize(("f", "calls"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_same_as_python(f, calls):
    if f.__name__ == "return_in_finally":
        assert convert_callable(f) is f
        return
    LOG.clear()
    same(f, *calls, log=LOG)


def test_asserts():
    """Where pytest has not rewritten them."""
    same(checked, *NUMBERS, log=CHECKED)


def test_source_can_be_shown():
    for f, _ in CASES:
        if f.__name__ != "return_in_finally":
            compile(autograph.to_code(f), "shown", "exec")
