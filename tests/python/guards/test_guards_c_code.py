"""Guards on what C code reads and stores, by the table of bindings/src/observe/c_table.cpp: containers that change or stay as
they are, the clock, other threads, code that is not in the table."""

import collections
import concurrent.futures
import contextvars
import datetime
import os
import queue
import threading
import time
import xml.etree.ElementTree
from types import SimpleNamespace

import pytest
import torch
import tracehost
from tracehost import _tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.ones(2)


# ---- containers ----------------------------------------------------------------------------------


class World:
    def __init__(self):
        self.items, self.empty, self.table, self.kinds = [1.0, 2.0], [], {}, {1.0}
        self.order = collections.OrderedDict(a=1, b=2)
        self.recent = collections.deque([1.0], maxlen=3)


# A statement that changes nothing in the first call, and what is done before later ones: then it does.
CHANGES = [
    ("w.items.sort()", "w.items = [3.0, 1.0]"),
    ("w.items[:] = sorted(w.items)", "w.items[:] = [3.0, 2.0]"),
    ("w.items[1:] = [2.0]", "w.items = [1.0, 5.0, 6.0]"),
    ("w.items[0] = 1.0", "w.items[0] = 7.0"),
    ("del w.items[2:]", "w.items.append(4.0)"),
    ("w.empty.clear()", "w.empty = [5.0]"),
    ("w.empty.clear()", "w.empty.append(5.0)"),
    ("w.empty.reverse()", "w.empty.extend([1.0, 2.0])"),
    ("w.empty *= 0", "w.empty.append(1.0)"),
    ("w.table.clear()", "w.table['a'] = 1"),
    ("w.table.pop('z', None)", "w.table['z'] = 1"),
    ("w.table.setdefault('k', 3)", "w.table.clear()"),
    ("w.kinds.discard(5.0)", "w.kinds.add(5.0)"),
    ("w.kinds.add(1.0)", "w.kinds.clear()"),
    ("w.kinds.update({1.0})", "w.kinds.clear()"),
    ("w.kinds -= {7.0}", "w.kinds.add(7.0)"),
    ("w.kinds.difference_update({7.0})", "w.kinds.add(7.0)"),
    ("w.order.move_to_end('b')", "w.order.move_to_end('a')"),
    ("w.recent.rotate(1)", "w.recent.append(3.0)"),
    ("heapq.heapify(w.items)", "w.items = [3.0, 1.0]"),
    ("bisect.insort(w.empty, 1.0); w.empty.clear()", "w.empty.append(5.0)"),
    ("operator.setitem(w.table, 'k', 3)", "w.table['k'] = 4"),
    ("operator.delitem(w.table, 'z') if 'z' in w.table else None", "w.table['z'] = 1"),
]


@pytest.mark.parametrize(("statement", "change"), CHANGES)
def test_a_change_that_was_none_at_the_trace_is_made_later(statement, change):
    text = f"import bisect, heapq, operator\ndef body(x):\n    {statement}\n    return x * 2"
    worlds = []
    for _ in range(2):
        names = {"w": World()}
        exec(text, names)
        worlds.append(names)
    f = tracehost.function(worlds[0]["body"], autograph=False)
    for i in range(4):
        assert torch.equal(f(X), worlds[1]["body"](X))
        ours, theirs = (repr(vars(names["w"])) for names in worlds)
        assert ours == theirs, f"call {i}"
        for names in worlds:
            exec(change, names)


# ---- what no guard can compare -------------------------------------------------------------------

BOOK = {"a": "b"}
KEEPS = (
    "Later calls do not: they use what it gave now, because no guard can compare what that C code reads. Call it outside of the "
    "function and pass the result, or call it in tracehost.py_function, which runs at each call."
)


def clock(x):
    return x * 2, time.time()


def today(x):
    return x * 2, datetime.datetime.now().year


def exists(x):
    return x * (2 if os.path.exists(__file__ + ".missing") else 3)


def size_of_a_file(x):
    return x * os.path.getsize(__file__)


@pytest.mark.parametrize(
    ("body", "call"),
    [
        (clock, "time.time()"),
        (today, "datetime.datetime.now()"),
        (exists, "exists()"),
        (size_of_a_file, "getsize()"),
    ],
)
def test_c_code_that_reads_what_no_guard_compares_is_named(body, call):
    line = body.__code__.co_firstlineno
    f = tracehost.function(body)
    with assert_traces(f, 1):
        with pytest.warns(tracehost.TraceWarning) as seen:
            f(X)
            f(X)
        place = f"test_guards_c_code.py:{line + 1}"
        assert [str(w.message) for w in seen] == [
            f"{body.__name__} (test_guards_c_code.py:{line}) calls {call} at {place}. {KEEPS}"
        ]
    assert f"   not guarded, may change unseen: {call} at {place}" in str(f.explain(X))


# ---- C code without a rule -----------------------------------------------------------------------


def unknown(x):
    return x * len(xml.etree.ElementTree.Element("e", BOOK).keys())


def of_the_body(x):
    return x * len(xml.etree.ElementTree.Element("e", {"a": str(len(BOOK))}).keys())


def bound_to_an_object(x):
    return x * len(TREE.keys())


def kept_with_an_object(x):
    return x * len(KEYS())


def in_a_list(x):
    return x * len(xml.etree.ElementTree.Element("e", *[BOOK]).keys())


def by_map(x):
    return x * len(list(map(xml.etree.ElementTree.Element, "e", [BOOK])))


TREE = xml.etree.ElementTree.Element("e", BOOK)
KEYS = TREE.keys


@pytest.mark.parametrize("body", [unknown, bound_to_an_object, in_a_list])
def test_c_code_without_a_rule_serves_its_own_call(body):
    f = tracehost.function(body)
    for _ in range(3):
        assert f(X).tolist() == [1, 1]
    assert f.stats()["hits"] == 0
    line = body.__code__.co_firstlineno + 1
    call = (
        "xml.etree.ElementTree.Element.keys"
        if body is bound_to_an_object
        else "xml.etree.ElementTree.Element"
    )
    assert tracehost.events()[-1].notes[-1] == (
        f"the body calls {call}() at test_guards_c_code.py:{line}, which is C code that tracehost does not know (if it "
        f"only reads what it is given: tracehost.autograph.reads_only({call})): it is traced again"
    )


@pytest.mark.parametrize("body", [kept_with_an_object, by_map])
def test_kept_c_code_without_a_rule_serves_its_own_call(body):
    f = tracehost.function(body)
    for _ in range(3):
        assert f(X).tolist() == [1, 1]
    assert f.stats()["hits"] == 0


def test_c_code_without_a_rule_may_have_what_the_body_has_made(change):
    f = tracehost.function(of_the_body)
    with assert_traces(f, 1):
        assert f(X).tolist() == f(X).tolist() == [1, 1]


REMEDY = """
import sys, warnings, xml.etree.ElementTree as tree
import torch, tracehost

warnings.simplefilter("error")
BOOK = {"a": "b"}
KEPT = tree.Element("e", BOOK)
tracehost.autograph.reads_only({said})

@tracehost.function
def f(x):
    return x * len({call}.keys())

x = torch.ones(2)
print(f(x).tolist(), f(x).tolist(), f.tracing_count())
BOOK["c"] = "d"
print(f(x).tolist(), f(x).tolist(), f.tracing_count())
"""


@pytest.mark.parametrize(
    ("said", "call", "shown"),
    [
        (
            "tree.Element",
            'tree.Element("e", BOOK)',
            "[1.0, 1.0] [1.0, 1.0] 1\n[2.0, 2.0] [2.0, 2.0] 2\n",
        ),
        ("tree", 'tree.Element("e", BOOK)', "[1.0, 1.0] [1.0, 1.0] 1\n[2.0, 2.0] [2.0, 2.0] 2\n"),
        ("tree.Element", "KEPT", "[1.0, 1.0] [1.0, 1.0] 1\n[1.0, 1.0] [1.0, 1.0] 1\n"),
    ],
)
def test_the_remedy_for_code_without_a_rule_works(run_host, tmp_path, said, call, shown):
    (tmp_path / "remedy.py").write_text(REMEDY.replace("{said}", said).replace("{call}", call))
    done = run_host("remedy.py")
    assert (done.stdout, done.stderr) == (shown, "")


def test_python_code_needs_no_such_remedy():
    with pytest.raises(
        TypeError,
        match="takes C code, got the Python function unknown: a trace observes what it reads",
    ):
        tracehost.autograph.reads_only(unknown)
    with pytest.raises(
        TypeError, match="a function, method, type or module of C code, got 3, which has no name"
    ):
        tracehost.autograph.reads_only(3)


def test_the_remedy_for_the_clock_works():
    f = tracehost.function(lambda x: x * tracehost.py_function(time.time_ns, [], torch.int64))
    first, second = f(X[:1]), f(X[:1].double())
    assert f(X[:1].double()).item() > second.item() > 0 and first.item() > 0


# ---- other threads -------------------------------------------------------------------------------

NUMBERS = queue.SimpleQueue()


def starts(x):
    got = []
    thread = threading.Thread(target=lambda: got.append(NUMBERS.qsize()))
    thread.start()
    thread.join()
    return x * got[0]


def submits(x):
    return x * POOL.submit(NUMBERS.qsize).result()


def takes(x):
    return x * NUMBERS.get_nowait()


POOL = concurrent.futures.ThreadPoolExecutor(1)


@pytest.mark.parametrize("body", [starts, submits, takes])
def test_what_another_thread_does_makes_the_trace_serve_its_own_call(body):
    for _ in range(3):
        NUMBERS.put(2)
    f = tracehost.function(body)
    assert torch.equal(f(X), X * (2 if body is takes else 3))
    NUMBERS.put(5)
    expected = [2, 2, 5] if body is takes else [4, 4, 4]
    assert [f(X)[0].item() for _ in range(3)] == expected
    assert f.stats()["hits"] == 0
    while not NUMBERS.empty():
        NUMBERS.get()


class Shared:
    value = 2.0


def test_a_change_by_another_thread_is_no_error():
    go, done = threading.Lock(), threading.Lock()
    go.acquire()
    done.acquire()
    shared = Shared()
    shared.value = 2.0

    def other():
        go.acquire()
        shared.value = 3.0
        done.release()

    first = True

    @tracehost.function
    def f(x):
        y = x * shared.value
        if first:
            go.release()
            done.acquire()
        return y

    thread = threading.Thread(target=other)
    thread.start()
    with assert_traces(f, 2):
        assert f(X).tolist() == [2, 2]
        thread.join()
        note = tracehost.events()[-1].notes[-1]
        assert note == (
            "shared.value changed while the body ran, and no code of the body stored there, as another thread may have: the "
            "next call is traced again"
        )
        first = False
        assert f(X).tolist() == f(X).tolist() == [3, 3]


# ---- the table -----------------------------------------------------------------------------------


def test_each_effect_can_be_switched_off_and_on():
    names = _tracehost.effects_of_c_code()
    assert len(names) == len(set(names)) > 15
    for name in names:
        assert _tracehost.switch_effect(name, False) and _tracehost.switch_effect(name, True)
    assert not _tracehost.switch_effect("no such effect", False)


# ---- context variables ---------------------------------------------------------------------------

MODE = contextvars.ContextVar("mode", default=None)
BARE = contextvars.ContextVar("bare")
HELD = SimpleNamespace(scale=contextvars.ContextVar("scale", default=1.5))


def asks_the_mode(x):
    return x * 2 if MODE.get() is None else x


def sets_and_resets(x):
    token = MODE.set({"a": ()})
    try:
        return x * 2 if "a" in MODE.get() else x
    finally:
        MODE.reset(token)


def gives_a_default(x):
    return x * BARE.get(3)


def catches_what_is_not_set(x):
    try:
        return x * BARE.get()
    except LookupError:
        return x


def of_an_object(x):
    return x * HELD.scale.get()


CONTEXTS = {
    asks_the_mode: (MODE, 1),
    sets_and_resets: (MODE, 1),
    gives_a_default: (BARE, 5.0),
    catches_what_is_not_set: (BARE, 5.0),
    of_an_object: (HELD.scale, 2.5),
}


@pytest.mark.parametrize("body", CONTEXTS, ids=lambda body: body.__name__)
@pytest.mark.parametrize("autograph", [False, True])
def test_a_context_variable_is_compared_at_each_call(body, autograph):
    variable, value = CONTEXTS[body]
    f = tracehost.function(body, autograph=autograph)

    def calls(count):
        for _ in range(2):
            assert torch.equal(f(X), body(X))
        assert f.tracing_count() == count

    calls(1)
    token = variable.set(value)
    calls(2)
    variable.reset(token)
    calls(2)
    other = contextvars.copy_context()
    other.run(variable.set, value)
    other.run(calls, 2)


def test_a_context_variable_that_the_body_leaves_changed():
    def body(x):
        MODE.set((MODE.get() or 0) + 1)
        return x * MODE.get()

    f = tracehost.function(body)
    assert [
        contextvars.copy_context().run(lambda: [f(X)[0].item() for _ in range(3)]) for _ in range(2)
    ] == [[1.0, 2.0, 3.0]] * 2


def test_a_context_variable_that_holds_a_container_is_read_anew_by_each_call():
    f = tracehost.function(asks_the_mode)

    def calls():
        for held in ({"k": 1}, {}, {"k": 2}):
            MODE.set(held)
            assert torch.equal(f(X), X)

    contextvars.copy_context().run(calls)
    assert torch.equal(f(X), X * 2)
