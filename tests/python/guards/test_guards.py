"""Guards are what the body was seen to read: the instructions that are observed, and who else observes them."""

import ast
import collections
import contextlib
import cProfile
import functools
import itertools
import json
import operator
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import CodeType

import pytest
import torch
import tracehost
from environment_support import X, checked, read_after_changes, same
from tracehost import _tracehost
from tracehost.testing import assert_traces

# ---- the instructions ----------------------------------------------------------------------------


def test_every_opcode_of_this_python_is_known():
    assert _tracehost.unknown_opcodes() == ""


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def test_the_depth_of_the_stack_follows_from_the_code():
    """Of library code with loops, handlers, generators, `match`, `async`: no instruction is deeper than the
    compiler says, and those that hold no value are the only ones at 0."""
    seen = 0
    for module in (
        ast,
        collections,
        contextlib,
        functools,
        json,
        subprocess,
        threading,
        torch.nn.modules.module,
    ):
        path = Path(module.__file__)
        for code in codes(compile(path.read_text(), str(path), "exec")):
            depths = [d for d in _tracehost.stack_depths(code) if d is not None]
            assert depths[0] in (0, 1)  # 1: a generator's, up to Python 3.12
            assert max(depths) <= code.co_stacksize, code
            seen += len(depths)
    assert seen > 20_000


# ---- what is read, and what is not ---------------------------------------------------------------


class Thing:
    kind = "a"

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def holds(**attributes):
    return lambda: Thing(**attributes)


class Attributes(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


Point = collections.namedtuple("Point", "x y")
FORM = "{0.scale}"

# What the body reads of a thing; changes of the thing, each with the traces in all after it.
READS = {
    "a name that is computed": (
        holds(scale=2.0, other=1.0),
        lambda thing, x: x * getattr(thing, "sc" + "ale"),
        (lambda thing: setattr(thing, "other", 5.0), 1),
        (lambda thing: setattr(thing, "scale", 3.0), 2),
    ),
    "an attribute that is not there": (
        holds(),
        lambda thing, x: x * getattr(thing, "scale", 2.0),
        (lambda thing: setattr(thing, "scale", 3.0), 2),
        (lambda thing: delattr(thing, "scale"), 2),
    ),
    "an attribute of the class, hidden by the instance": (
        holds(),
        lambda thing, x: x * len(thing.kind),
        (lambda thing: setattr(thing, "kind", "bb"), 2),
    ),
    "an item, not the others": (
        holds(table={"a": 1.0, "b": 2.0}),
        lambda thing, x: x * thing.table["a"],
        (lambda thing: thing.table.update(b=5.0), 1),
        (lambda thing: thing.table.update(c=5.0), 1),
        (lambda thing: thing.table.update(a=5.0), 2),
    ),
    "a key that is missing": (
        holds(table={"a": 1.0}),
        lambda thing, x: x * thing.table.get("b", 7.0),
        (lambda thing: thing.table.update(a=5.0), 1),
        (lambda thing: thing.table.update(b=5.0), 2),
    ),
    "the shape of a tensor that is no input": (
        holds(w=torch.ones(3)),
        lambda thing, x: x * thing.w.shape[0],
        (lambda thing: setattr(thing, "w", torch.zeros(3)), 1),
        (lambda thing: setattr(thing, "w", torch.zeros(5)), 2),
    ),
    "the class of a tensor that is no input": (
        holds(w=torch.ones(3)),
        lambda thing, x: x * (2 if isinstance(thing.w, torch.nn.Parameter) else 3),
        (lambda thing: setattr(thing, "w", torch.nn.Parameter(torch.ones(3))), 2),
    ),
    "a dict whose attributes are its items": (
        lambda: Attributes(scale=2.0),
        lambda thing, x: x * thing.scale,
        (lambda thing: setattr(thing, "scale", 3.0), 2),
    ),
    "a field of a named tuple": (
        holds(point=Point(2.0, 3.0)),
        lambda thing, x: x * thing.point.x,
        (lambda thing: setattr(thing, "point", Point(5.0, 3.0)), 2),
    ),
    "the last item of a deque": (
        holds(recent=collections.deque([1.0, 2.0])),
        lambda thing, x: x * thing.recent[-1],
        (lambda thing: thing.recent.append(3.0), 2),
    ),
    "a ChainMap": (
        holds(maps=collections.ChainMap({"a": 1.0}, {"b": 2.0})),
        lambda thing, x: x * thing.maps["b"],
        (lambda thing: operator.setitem(thing.maps, "b", 5.0), 2),
    ),
    "by an attrgetter": (
        holds(inner=Thing(scale=2.0)),
        lambda thing, x: x * operator.attrgetter("inner.scale")(thing),
        (lambda thing: setattr(thing.inner, "scale", 3.0), 2),
    ),
    "by a format string": (
        holds(scale="2"),
        lambda thing, x: x * float(FORM.format(thing)),
        (lambda thing: setattr(thing, "scale", "3"), 2),
    ),
}


@pytest.mark.parametrize("name", READS)
def test_what_was_read_is_what_is_compared(name):
    read_after_changes(*READS[name])


def test_a_patched_builtin_and_a_patched_library_are_seen(monkeypatch):
    check = checked(lambda x: x * len("ab") * json.loads("3"))
    check(1)
    monkeypatch.setitem(globals(), "len", lambda value: 7)
    check(2)
    monkeypatch.setattr(json, "loads", lambda text: 5)
    check(3)


# What a later call can't compare, so that each is traced: the values are those of eager.
TRACED_EACH_TIME = {
    "an iterator from outside": (itertools.count, lambda it, x: x * next(it)),
    "a generator from outside": (lambda: iter((1.0, 2.0, 3.0)), lambda it, x: x * next(it)),
    "a set of objects": (lambda: {Thing(scale=2.0)}, lambda s, x: x * sum(t.scale for t in s)),
}


@pytest.mark.parametrize("name", TRACED_EACH_TIME)
def test_what_no_call_can_compare_is_traced_each_time(name):
    make, body = TRACED_EACH_TIME[name]
    ours, theirs = make(), make()
    f = tracehost.function(lambda x: body(ours, x))
    for traces in (1, 2, 3):
        assert torch.equal(f(X), body(theirs, X))
        assert f.tracing_count() == traces
    assert f.specializations() == []


# ---- stores that hits repeat -----------------------------------------------------------------------

STORES = {
    "an item is taken out of a dict": lambda state, x: x + state["taken"].pop("w", torch.zeros(4)),
    "a dict is emptied": lambda state, x: (state["taken"].clear(), x * 2)[1],
    "an item is deleted": lambda state, x: (state["taken"].__delitem__("w"), x * 2)[1],
    "None is stored": lambda state, x: (state.update(h=None), x * 2)[1],
    "a tensor is appended": lambda state, x: (state["log"].append(x + 1), x * 2)[1],
}


@pytest.mark.parametrize("name", STORES)
def test_a_hit_stores_what_the_body_stores(name):
    def state():
        return {"taken": {"w": torch.ones(4)}, "h": torch.ones(4), "log": []}

    body = STORES[name]
    ours, theirs = state(), state()
    f = tracehost.function(lambda x: body(ours, x))
    with assert_traces(f, 1):
        for i in range(3):
            for s in (ours, theirs):
                s["taken"] = {"w": torch.full((4,), float(i))}
                s["h"] = torch.ones(4)
            assert torch.equal(f(X + i), body(theirs, X + i))
            assert ours.keys() == theirs.keys() and ours["taken"].keys() == theirs["taken"].keys()
            assert (ours["h"] is None) == (theirs["h"] is None)
            assert [t.tolist() for t in ours["log"]] == [t.tolist() for t in theirs["log"]]


# ---- others who observe ----------------------------------------------------------------------------


def test_a_trace_function_goes_on_and_comes_back():
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code is body.__code__:
            lines.append((event, frame.f_lineno - body.__code__.co_firstlineno))
        return tracer

    def body(x):
        y = x * 2
        return y + 1

    f = tracehost.function(body, autograph=False)
    before = sys.gettrace()
    sys.settrace(tracer)
    with assert_traces(f, 1):
        try:
            f(X)
            after = sys.gettrace()
        finally:
            sys.settrace(before)
        assert after is tracer
        assert [line for event, line in lines if event == "line"] == [1, 2]
        same(f, body, X)


def test_a_body_that_sets_a_trace_function_is_not_published():
    def body(x):
        sys.settrace(lambda *_: None)
        sys.settrace(None)
        return x * 2

    f = tracehost.function(body, autograph=False)
    for _ in range(2):
        assert torch.equal(f(X), X * 2)
    published = 1 if sys.version_info >= (3, 12) else 0  # there a trace has a tool of its own
    assert len(f.specializations()) == published
    assert sys.gettrace() is None


def test_a_profile_is_made_of_a_trace():
    def inner(x):
        return x * 2

    f = tracehost.function(lambda x: inner(x) + 1)
    profile = cProfile.Profile()
    profile.enable()
    with assert_traces(f, 1):
        f(X)
        profile.disable()
    assert any("inner" in str(entry.code) for entry in profile.getstats())
    same(f, lambda x: inner(x) + 1, X)


def test_pdb_stops_in_a_body(tmp_path):
    script = tmp_path / "stops.py"
    script.write_text(
        "import torch, tracehost\n"
        "@tracehost.function(autograph=False)\n"
        "def f(x):\n"
        "    y = x * 2\n"
        "    breakpoint()\n"
        "    return y + 1\n"
        "print(f(torch.ones(1)).item(), len(f.specializations()))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        input="p 'y is', y.shape[0]\nc\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "'y is', 1" in done.stdout.replace("(", "").replace(")", "")
    assert "3.0 " in done.stdout


def test_nothing_stays_behind():
    """No tool of sys.monitoring, no trace function, also where two threads trace at once."""
    f = tracehost.function(lambda x: x * 2)
    with assert_traces(f, 4):
        threads = [threading.Thread(target=f, args=(torch.ones(n),)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sys.gettrace() is None
    if hasattr(sys, "monitoring"):
        assert all(sys.monitoring.get_tool(i) is None for i in range(6))


def test_a_weak_reference_leads_to_what_it_refers_to():
    thing = Thing(scale=2.0)
    reference = weakref.ref(thing)
    check = checked(lambda x: x * reference().scale)
    check(1)
    thing.scale = 3.0
    check(2)


@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
def test_coverage_sees_the_lines_of_a_body(tmp_path, core):
    if core == "sysmon" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring is of Python 3.12 and later")
    (tmp_path / "net.py").write_text(
        "import torch, tracehost\n"
        "SCALE = 2.0\n"
        "@tracehost.function\n"
        "def f(x):\n"
        "    if x.shape[0] > 2:\n"
        "        return x * SCALE\n"
        "    y = x * SCALE\n"
        "    return y + 1\n"
        "print(f(torch.ones(1)).item())\n"
        "SCALE = 3.0\n"
        "print(f(torch.ones(1)).item(), f.tracing_count(), len(f.specializations()))\n"
    )
    environment = {**os.environ, "COVERAGE_CORE": core, "COVERAGE_FILE": str(tmp_path / "data")}
    run = functools.partial(
        subprocess.run, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path
    )
    done = run([sys.executable, "-m", "coverage", "run", "net.py"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3.0\n4.0 2 2\n", done.stdout + done.stderr
    report = run([sys.executable, "-m", "coverage", "report", "-m", "--include=net.py"])
    assert report.stdout.splitlines()[2].split()[1:] == ["11", "1", "91%", "6"], report.stdout
