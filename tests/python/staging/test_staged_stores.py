"""What a staged branch or loop stores in code that it calls: a branch does what eager does, a loop raises. No tensor
without data stays outside."""

import asyncio
import collections
import contextvars
import functools
import queue
import re
import threading
import types

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

X = torch.ones(2)
IN_A_LOOP = (
    ", in code that it calls, and a graph can't repeat that for each iteration. Return the value, assign it to a variable "
    "in the body, and store it behind the loop."
)
WHY = (
    "of a branch or loop that is staged, and that is not run at this call. Assign it to a variable there (in each branch), "
    "and store that behind the block."
)


class Holder:
    def __init__(self, value=None):
        self.value = value


class Slotted:
    __slots__ = ("value",)


def stored_nonlocally():
    kept = None

    def keep(y):
        nonlocal kept
        kept = y

    return keep


LIST, DEQUE, SET, TABLE, GROUPS = (
    [1],
    collections.deque([1, 2], 2),
    {1},
    {"a": 1},
    collections.defaultdict(list),
)
CHAIN, HOLDER, SLOTTED, NAMES = (
    collections.ChainMap({}),
    Holder(),
    Slotted(),
    types.SimpleNamespace(),
)
KEEP = stored_nonlocally()
LOCAL, CONTEXT = threading.local(), contextvars.ContextVar("context")
C_QUEUE, QUEUE = queue.SimpleQueue(), queue.Queue()

# What a branch does with its tensor `y`, and what the message calls the place.
TAKEN_BACK = {
    "list": (lambda y: LIST.append(y), "LIST"),
    "list, in front": (lambda y: LIST.insert(0, y), "LIST"),
    "list, within an object": (lambda y: LIST.append(Holder(y)), "LIST"),
    "list, within a tuple": (lambda y: LIST.append((1, [y])), "LIST"),
    "slice": (lambda y: LIST.__setitem__(slice(0, 0), [y]), "LIST"),
    "deque": (lambda y: DEQUE.append(y), "DEQUE"),
    "deque, in front": (lambda y: DEQUE.appendleft(y), "DEQUE"),
    "set": (lambda y: SET.add(y), "SET"),
    "dict": (lambda y: TABLE.update(k=y), "TABLE"),
    "dict, a default": (lambda y: TABLE.setdefault("k", y), "TABLE['k']"),
    "defaultdict": (lambda y: GROUPS["k"].append(y), "GROUPS['k']"),
    "ChainMap": (lambda y: CHAIN.__setitem__("k", y), "CHAIN.maps[0]['k']"),
    "attribute": (lambda y: setattr(HOLDER, "value", y), "HOLDER.value"),
    "attribute of a function": (
        lambda y: setattr(stored_nonlocally, "value", y),
        "stored_nonlocally.value",
    ),
    "queue": (lambda y: QUEUE.put(y), "QUEUE.queue"),
    "slot": (lambda y: setattr(SLOTTED, "value", y), "SLOTTED.value"),
    "namespace": (lambda y: setattr(NAMES, "value", y), "NAMES.value"),
    "nonlocal": (lambda y: KEEP(y), "nonlocal kept (KEEP)"),
}
# The list holds the tensor by an object of its own.
HELD = {
    "closure": lambda y: LIST.append(lambda: y),
    "generator": lambda y: LIST.append(i for i in [y]),
    "exception": lambda y: LIST.append(ValueError(y)),
    "partial": lambda y: LIST.append(functools.partial(print, y)),
    "method": lambda y: LIST.append(y.sum),
}
# What no slot shows.
SEEN = {
    "thread-local": lambda y: setattr(LOCAL, "value", y),
    "queue of C code": lambda y: C_QUEUE.put(y),
}


def outside():
    """All that TAKEN_BACK stores to, as text."""
    slot = getattr(SLOTTED, "value", None)
    kept = KEEP.__closure__[0].cell_contents
    made = vars(stored_nonlocally), list(QUEUE.queue)
    return repr(
        [
            made,
            LIST,
            DEQUE,
            sorted(map(str, SET)),
            TABLE,
            GROUPS,
            CHAIN,
            vars(HOLDER),
            vars(NAMES),
            slot,
            kept,
        ]
    )


def empty():
    """As it was at first."""
    LIST[:] = [1]
    DEQUE.extend([1, 2])
    SET.intersection_update({1})
    for table in (TABLE, CHAIN):
        table.pop("k", None)
    GROUPS.clear()
    for holder in (HOLDER, SLOTTED, NAMES, stored_nonlocally):
        vars(holder).pop("value", None) if hasattr(holder, "__dict__") else None
    HOLDER.value = None
    if hasattr(SLOTTED, "value"):
        del SLOTTED.value
    KEEP(None)
    for q in (QUEUE, C_QUEUE):
        while not q.empty():
            q.get()


@pytest.fixture(autouse=True)
def as_before():
    empty()
    yield
    empty()


def branch(store):
    def body(x):
        if x.sum() < 0:
            y = x * 2
            store(y)
        else:
            y = x * 3
        return y

    return body


def loop(store):
    def body(x):
        n = 0
        while x.sum() < 9:
            x = x * 2
            store(x)
            n += 1
        return x, n

    return body


STORES = {name: store for name, (store, _) in TAKEN_BACK.items()}


@pytest.mark.parametrize("case", STORES)
def test_a_branch_stores_as_eager_does(case):
    body = branch(STORES[case])

    def run(step):
        empty()
        told = []
        for x in (X, X * 2, -X, X, -X * 3, -X):
            result = step(x)
            text = re.sub(r"0x[0-9a-f]+", "", outside())
            told.append((result.tolist(), text))
        return told

    f = tracehost.function(body)
    assert run(f) == run(body)
    assert f.stats()["hits"] > 0


@pytest.mark.parametrize("case", [*HELD, *SEEN])
def test_a_branch_that_no_hit_can_repeat_runs_in_each_call(case):
    empty()
    runs = []

    def store(y):
        runs.append(0)
        (HELD | SEEN)[case](y)

    body = branch(store)
    f = tracehost.function(body)
    before = outside()
    with assert_traces(f, 1):
        for x in (X, X * 2, X):
            assert torch.equal(f(x), x * 3)
        assert outside() == before and not runs
    for n in (1, 2, 3):
        assert torch.equal(f(-X), -X * 2) and len(runs) == n
    assert torch.equal(f(X), X * 3) and f.stats()["hits"] >= 3


@pytest.mark.parametrize("case", TAKEN_BACK)
def test_what_a_loop_stores_is_taken_back_and_rejected(case):
    store, place = TAKEN_BACK[case]
    before = outside()
    with pytest.raises(tracehost.StagingError) as rejected:
        tracehost.function(loop(store), value_reads="error")(X)
    assert outside() == before
    line = loop.__code__.co_firstlineno + 3
    text = str(rejected.value).replace(" (test_staged_stores.py)", "")
    start = f"the body of the while at test_staged_stores.py:{line} stores {place} at test_staged_stores.py:"
    assert text.startswith(start) and text.endswith(IN_A_LOOP)


@pytest.mark.parametrize("case", STORES)
def test_a_loop_that_stores_is_unrolled(case):
    body = loop(STORES[case])

    def run(step):
        empty()
        told = []
        for x in (X, X * 2, X * 20, X, X * 3, X * 20):
            moved, n = step(x)
            told.append((moved.tolist(), n, re.sub(r"0x[0-9a-f]+", "", outside())))
        return told

    assert run(tracehost.function(body)) == run(body)


@pytest.mark.parametrize("case", HELD)
def test_what_a_loop_keeps_in_a_list_is_rejected(case):
    with pytest.raises(tracehost.StagingError, match="stores LIST"):
        tracehost.function(loop(HELD[case]), value_reads="error")(X)
    assert LIST == [1]


def seen():
    queued = [C_QUEUE.get().tolist() for _ in range(C_QUEUE.qsize())]
    return repr([getattr(LOCAL, "value", None), queued, CONTEXT.get(None)])


@pytest.mark.parametrize("store", [*SEEN.values(), CONTEXT.set])
def test_what_no_slot_shows_is_stored_by_each_iteration(store):
    """The loop is unrolled."""

    def run(step):
        vars(LOCAL).clear()
        return [(str(step(x)), seen()) for x in (X, X * 3, X, X * 9, X * 3)]

    body = loop(store)
    assert contextvars.copy_context().run(run, tracehost.function(body)) == (
        contextvars.copy_context().run(run, body)
    )


def test_what_stays_elsewhere_is_rejected_with_the_line_that_makes_it():
    events = asyncio.new_event_loop()
    future = events.create_future()  # of C code that is not known
    with pytest.raises(tracehost.StagingError) as rejected:
        tracehost.function(loop(future.set_result))(X)
    events.close()
    line = loop.__code__.co_firstlineno + 4
    assert (
        str(rejected.value)
        == f"something outside keeps the tensor made at test_staged_stores.py:{line} {WHY}"
    )


class Cycle:
    def __init__(self, tensor):
        self.tensor, self.me = tensor, self


def test_what_nothing_keeps_is_no_reason_to_reject():
    def body(x):
        if x.sum() < 0:
            y = Cycle(x * 2).tensor + [x * 3, x * 4][0]
        else:
            y = x * 3
        return y

    f = tracehost.function(body)
    with assert_traces(f, 1):
        assert torch.equal(f(X), X * 3) and torch.equal(f(-X), -X * 5)


def test_a_context_variable_that_a_branch_sets_is_as_in_eager():
    def run(step):
        seen = []
        for x in (X, -X, X, -X, X):
            y = step(x)
            held = CONTEXT.get(None)
            seen.append((y.tolist(), None if held is None else held.tolist()))
        return seen

    body = branch(lambda y: CONTEXT.set(y))
    f = tracehost.function(body)
    assert contextvars.copy_context().run(run, f) == contextvars.copy_context().run(run, body)
    assert f.stats()["hits"] > 0
