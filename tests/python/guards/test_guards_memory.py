"""Memory of numpy's arrays and of buffers is compared at each call, once the body has read what holds it."""

import array

import numpy as np
import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.ones(3)


class Matrix(np.ndarray):
    pass


class Holder:
    def __init__(self):
        self.table = np.zeros(2)
        self.rows = [np.zeros(2)]
        self.named = {"k": np.zeros(2)}


GRID = np.zeros((4, 4))
RECORD = np.zeros(1, dtype=[("a", float), ("b", int)])
BYTES = bytearray(b"abc")

# What the body reads, how that is read as a number, and what changes that number. The last is numpy's or Python's own code.
MEMORY = {
    "array": (np.zeros(3), lambda a: float(a[1]), lambda a: a.__setitem__(1, 2.0)),
    "sum": (np.zeros(3), lambda a: a.sum(), lambda a: a.fill(3.0)),
    "function": (np.zeros(3), np.max, lambda a: np.copyto(a, 5.0)),
    "operator": (np.zeros(3), lambda a: float((a * 2)[0]), lambda a: a.__iadd__(1.0)),
    "condition": (np.zeros(3), lambda a: 2 if a.any() else 3, lambda a: a.__setitem__(0, 1.0)),
    "iteration": (np.zeros(3), lambda a: sum(float(v) for v in a), lambda a: a.__setitem__(2, 1.0)),
    "column": (GRID[:, 1], lambda a: float(a[2]), lambda a: GRID.__setitem__((2, 1), 4.0)),
    "order": (np.asfortranarray(np.zeros((3, 2))), np.sum, lambda a: a.__setitem__((0, 1), 2.0)),
    "dates": (
        np.array(["2020-01-01"], "M8[D]"),
        lambda a: int(a[0].astype(int)),
        lambda a: a.__iadd__(1),
    ),
    "objects": (np.array([1.0, None]), lambda a: a[0], lambda a: a.__setitem__(0, 3.0)),
    "fields": (RECORD, lambda a: float(a["a"][0]), lambda a: a["a"].__setitem__(0, 7.0)),
    "subclass": (np.zeros(3).view(Matrix), lambda a: float(a[0]), lambda a: a.__setitem__(0, 2.0)),
    "masked": (
        np.ma.masked_array([1.0, 2.0], [0, 1]),
        lambda a: float(a.sum()),
        lambda a: a.__setitem__(0, 4.0),
    ),
    "bytearray": (BYTES, lambda a: a[0], lambda a: a.__setitem__(0, 7)),
    "memoryview": (memoryview(BYTES), lambda a: a[1], lambda a: BYTES.__setitem__(1, 9)),
    "array.array": (array.array("d", [1, 2]), lambda a: a[0], lambda a: a.__setitem__(0, 8.0)),
}


@pytest.mark.parametrize("name", MEMORY)
def test_a_change_is_seen(name):
    memory, number, change = MEMORY[name]
    f = tracehost.function(lambda x: x * number(memory))
    with assert_traces(f, (4 if name == "objects" else 2)):  # an array of objects is not published
        before = f(X)
        assert torch.equal(before, X * number(memory))
        assert torch.equal(f(X), before)
        change(memory)
        assert torch.equal(f(X), X * number(memory))
        assert not torch.equal(f(X), before)


def test_where_arrays_are_held():
    holder = Holder()
    f = tracehost.function(
        lambda x: x + float(holder.table[0] + holder.rows[0][0] + holder.named["k"][0])
    )
    with assert_traces(f, 4):
        for kept in (holder.table, holder.rows[0], holder.named["k"]):
            assert torch.equal(f(X), f(X))
            kept[0] += 1
            assert torch.equal(
                f(X), X + float(holder.table[0] + holder.rows[0][0] + holder.named["k"][0])
            )


def test_what_the_body_writes_itself():
    counts = np.zeros(2)

    @tracehost.function
    def f(x):
        counts[0] += 1
        return x * float(counts[0])

    assert [f(X)[0].item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert counts[0] == 4


def test_a_store_of_the_same_content_is_no_change():
    settings = np.zeros(2)

    @tracehost.function
    def f(x):
        settings[0] = 5.0
        return x * float(settings.sum())

    with assert_traces(f, 2):
        assert [f(X)[0].item() for _ in range(4)] == [5.0] * 4
        assert settings[0] == 5


def test_the_same_content_is_the_same_graph():
    table = np.array([1.0])
    f = tracehost.function(lambda x: x * float(table[0]))
    with assert_traces(f, 2):
        for value in (1.0, 2.0, 1.0, 2.0):
            table[0] = value
            assert torch.equal(f(X), X * value)


def test_the_cause_names_the_memory():
    table = np.array([1.0])

    @tracehost.function
    def f(x):
        return x * float(table[0])

    f(X)
    table[0] = 2.0
    assert "table.data" in str(f.explain(X))
