"""Functions and methods of the standard library, called at once or kept in a variable, an attribute, a partial or a list: each call
of a Function gives what eager gives, while the object changes between calls. Either a guard or a repeated store follows the change,
or the trace serves its own call."""

import linecache
import warnings

import pytest
import torch
import tracehost
from kept_methods import CASES, WAYS, Thing, weigh, world

X = torch.ones(2)
STATE = ("o", "THING", "OTHER", "HELD", "TEXTS")


def program(case, way):
    """The text of a body that calls what the case says, kept in that way."""
    keep, call = WAYS[way]
    function, arguments = case.function, case.arguments
    keep, call = keep.format(function=function), call.format(function=function, arguments=arguments)
    return f"o = {case.made}\n{keep}\ndef body(x):\n    return x * 2, weigh({call})\n"


def made(text, name):
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names = world() | {"__name__": "program"}
    exec(compile(text, file, "exec"), names)
    return names


def outcome(body):
    try:
        return repr(body(X)[1])
    except tracehost.Error:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def state(names):
    return repr(
        [
            weigh(names[name])
            for name in STATE
            if hasattr(names[name], "__iter__") or isinstance(names[name], Thing)
        ]
    )


def run(text, changes, name):
    """A store that no hit repeats is a SideEffectWarning, and then only the result is compared."""
    ours, theirs = (made(text, name) for _ in range(2))
    f = tracehost.function(ours["body"])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for number, change in enumerate(("", "", *changes, "")):
            for names in (ours, theirs):
                try:
                    exec(change, names)
                except (KeyError, IndexError, AttributeError):  # it is gone already
                    assert change
            at = f"call {number}, after {change!r}\n{text}"
            assert outcome(f) == outcome(theirs["body"]), at
            if any(w.category is tracehost.SideEffectWarning for w in seen):
                return
            assert state(ours) == state(theirs), at


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_eager(case):
    for way in WAYS:
        run(program(case, way), case.changes, f"{case} {way}")
