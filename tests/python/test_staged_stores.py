"""Tensors of a staged branch or loop have no data at the trace: none stays outside of the block, wherever the block puts it."""

import collections
import contextvars
import functools
import queue
import threading
import types

import pytest
import torch
import tracehost

X = torch.ones(2)
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
    "list, in front": (lambda y: LIST.insert(0, y), "LIST[0]"),
    "list, within an object": (lambda y: LIST.append(Holder(y)), "LIST"),
    "list, within a tuple": (lambda y: LIST.append((1, [y])), "LIST"),
    "slice": (lambda y: LIST.__setitem__(slice(0, 0), [y]), "LIST[0]"),
    "deque": (lambda y: DEQUE.append(y), "DEQUE[0]"),
    "deque, in front": (lambda y: DEQUE.appendleft(y), "DEQUE[0]"),
    "set": (lambda y: SET.add(y), "SET"),
    "dict": (lambda y: TABLE.update(k=y), "TABLE['k']"),
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
SEEN = {
    "thread-local": lambda y: setattr(LOCAL, "value", y),
    "context variable": lambda y: CONTEXT.set(y),
    "queue of C code": lambda y: C_QUEUE.put(y),
    "closure": lambda y: LIST.append(lambda: y),
    "generator": lambda y: LIST.append(i for i in [y]),
    "exception": lambda y: LIST.append(ValueError(y)),
    "partial": lambda y: LIST.append(functools.partial(print, y)),
    "method": lambda y: LIST.append(y.sum),
}


def outside():
    """All that TAKEN_BACK stores to, as text."""
    slot = getattr(SLOTTED, "value", None)
    kept = KEEP.__closure__[0].cell_contents
    made = vars(stored_nonlocally), list(QUEUE.queue)
    return repr(
        [made, LIST, DEQUE, SET, TABLE, GROUPS, CHAIN, vars(HOLDER), vars(NAMES), slot, kept]
    )


@pytest.fixture(autouse=True)
def as_before():
    yield
    del LIST[1:]
    GROUPS.clear()
    for q in (QUEUE, C_QUEUE):
        while not q.empty():
            q.get()


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


@pytest.mark.parametrize("block", [branch, loop])
@pytest.mark.parametrize("case", TAKEN_BACK)
def test_what_a_block_stores_is_taken_back_and_refused(case, block):
    store, place = TAKEN_BACK[case]
    before = outside()
    with pytest.raises(tracehost.StagingError) as refused:
        tracehost.function(block(store))(X)
    assert outside() == before
    where = str(refused.value).partition(" at ")[0]
    assert where.replace(" (test_staged_stores.py)", "") == place
    assert str(refused.value).endswith(" gets a tensor " + WHY)


@pytest.mark.parametrize("block", [branch, loop])
@pytest.mark.parametrize("case", SEEN)
def test_what_stays_elsewhere_is_refused_with_the_line_that_makes_it(case, block):
    with pytest.raises(tracehost.StagingError) as refused:
        tracehost.function(block(SEEN[case]))(X)
    line = block.__code__.co_firstlineno + {branch: 3, loop: 4}[block]
    assert (
        str(refused.value)
        == f"something outside keeps the tensor made at test_staged_stores.py:{line} {WHY}"
    )


class Cycle:
    def __init__(self, tensor):
        self.tensor, self.me = tensor, self


def test_what_nothing_keeps_is_no_reason_to_refuse():
    def body(x):
        if x.sum() < 0:
            y = Cycle(x * 2).tensor + [x * 3, x * 4][0]
        else:
            y = x * 3
        return y

    f = tracehost.function(body)
    assert torch.equal(f(X), X * 3) and torch.equal(f(-X), -X * 5)
    assert f.tracing_count() == 1
