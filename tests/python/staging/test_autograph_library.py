"""The standard library as a corpus: everything converts; what takes simple arguments does what it did.

`diastatic-malt`, the fork of TensorFlow's autograph, is the third opinion: where it converts a function, its
version and ours do the same.
"""

import contextlib
import functools
import importlib
import importlib.util
import io
import random
import signal
import types

import pytest
from autograph_support import outcome
from tracehost.autograph.conversion import compile as compiler
from tracehost.autograph.conversion import policy
from tracehost.autograph.run.calls import convert_callable

CONVERTED = (
    "argparse ast bisect calendar cmd collections colorsys configparser copy csv dataclasses datetime decimal "
    "difflib dis email.message enum fileinput fnmatch fractions functools gettext glob heapq html.parser "
    "inspect ipaddress json.decoder json.encoder keyword locale logging mailbox numbers optparse pathlib pickle "
    "pickletools pprint random shlex shutil statistics string subprocess tarfile textwrap threading tokenize "
    "traceback types typing unittest.mock urllib.parse uuid warnings xml.dom.minidom zipfile _pydecimal"
).split()
RUN = (
    "calendar colorsys copy difflib fnmatch heapq html ipaddress json.encoder locale nturl2path ntpath "
    "posixpath quopri shlex statistics string textwrap urllib.parse"
).split()
ARGUMENTS = (
    (),
    (0,),
    (3,),
    (2.5,),
    ("a b-c",),
    ([3, 1, 2],),
    ({"k": 1},),
    (None,),
    (2, 5),
    ("abc", "b"),
    ([1, 2, 4], 3),
    (b"ab", "c"),
    (0.2, 0.4, 0.6),
    ("x%20y", "a=1&b=2", 3),
)
# Ask the system, wait for input, or answer differently each time.
NOT_RUN = {"monthrange", "main", "fifo", "mktemp", "samefile", "expanduser", "realpath", "abspath"}


def functions_of(module):
    found = []

    def add(value, depth):
        value = getattr(value, "__func__", value)
        value = value.fget if isinstance(value, property) else value
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            if value.__name__ != "__annotate__":  # Python 3.14 makes it; no line defines it
                found.append(value)
        elif isinstance(value, type) and value.__module__ == module.__name__ and depth < 3:
            for inner in list(vars(value).values()):
                add(inner, depth + 1)

    for value in list(vars(module).values()):
        add(value, 0)
    return found


@pytest.fixture
def as_users(monkeypatch):
    monkeypatch.setattr(policy, "left_alone", lambda function: None)


@pytest.mark.parametrize("name", CONVERTED)
def test_all_convert(name, as_users):
    left = {}
    for f in functions_of(importlib.import_module(name)):
        why = compiler._convert(f).reason
        if why is not None:
            left[f.__qualname__] = why
    expected = (
        "it is a generator",
        "it is an async",
        "it reads its own",
        "its finally",
        "it has no source",
    )
    assert {q: why for q, why in left.items() if not why.startswith(expected)} == {}


@contextlib.contextmanager
def at_most(seconds):
    def stop(*_):
        raise TimeoutError("took too long")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def what_it_does(f, args):
    """Result or exception; not the places: callees of the library are converted too."""
    random.seed(0)
    with contextlib.redirect_stdout(io.StringIO()) as shown, at_most(10):
        result, given, _ = outcome(f, args)
    return result[:3], given, shown.getvalue()


def runnable(name):
    module = importlib.import_module(name)
    return [
        f
        for f in functions_of(module)
        if f.__name__ not in NOT_RUN and f.__qualname__ == f.__name__
    ]


@pytest.mark.parametrize("name", RUN)
def test_does_what_it_did(name, as_users):
    returned = 0
    for f in runnable(name):
        made = convert_callable(f)
        for args in ARGUMENTS:
            plain, converted = what_it_does(f, args), what_it_does(made, args)
            if " at 0x" not in repr(plain):
                assert converted == plain, (f, args)
            returned += plain[0][0] == "returned"
    assert returned


@functools.cache
def theirs_of(f):
    """What malt makes of a function; None where it raises (generators, for/else and more)."""
    api = pytest.importorskip("malt.impl.api")
    assert importlib.util  # which malt takes for imported
    try:
        return api.to_graph(f, recursive=False)
    except Exception:
        return None


@pytest.mark.slow
def test_does_what_malt_s_does(as_users):
    compared = 0
    for name in ("colorsys", "heapq", "textwrap", "html", "calendar", "urllib.parse", "statistics"):
        for f in runnable(name):
            if sum(1 for _ in f.__code__.co_lines()) > 80 or (theirs := theirs_of(f)) is None:
                continue  # its time grows exponentially with a function's length
            ours = convert_callable(f)
            for args in ARGUMENTS:
                expected = what_it_does(theirs, args)
                if expected[0][0] == "returned" and " at 0x" not in repr(expected):
                    assert what_it_does(ours, args) == expected, (f, args)
                    compared += 1
    assert compared > 50
