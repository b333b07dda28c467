"""Trees that are large, deep, shared or changed while they are walked."""

import dataclasses
import gc
import sys
import threading

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces
from types_support import traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.ones(2)


@dataclasses.dataclass
class Node:
    next: object = None


def test_cycles_of_all_kinds_are_rejected():
    f = tracehost.function(lambda tree: 1)
    ring = Node([{}])
    ring.next[0]["k"] = (ring,)
    with pytest.raises(tracehost.SignatureError, match="argument 'tree': a Node contains itself"):
        f(ring)
    table = {}
    table["self"] = table
    with pytest.raises(tracehost.SignatureError, match="argument 'tree': a dict contains itself"):
        f(table)
    assert f.stats()["live"] == 0


def test_a_value_that_begins_to_contain_itself():
    f = tracehost.function(lambda tree: 1)
    tree = [1, [2]]
    assert f(tree) == 1
    tree[1].append(tree)
    with pytest.raises(tracehost.SignatureError, match="a list contains itself"):
        f(tree)


def test_a_shared_part_is_walked_where_it_stands():
    f = tracehost.function(lambda tree: 1)
    shared = [X, 1]
    calls = [([shared, shared],), ([[X, 1], [X, 1]],), ([[X, 1], [X + 1, 1]],)]
    assert traces(f, *calls) == "101"


def test_a_small_value_that_unfolds_into_too_many():
    f = tracehost.function(lambda tree: 1)
    tree = [1, 2]
    for _ in range(30):
        tree = [tree, tree]
    with pytest.raises(tracehost.SignatureError, match="more than 1000000 values"):
        f(tree)


def test_ten_thousand_leaves():
    f = tracehost.function(lambda tree: tree["k"][0] + tree["k"][-1])
    tensors = [torch.full((1,), float(i)) for i in range(10_000)]
    values = {"k": tensors, "n": list(range(10_000)), "d": {str(i): (i,) for i in range(5_000)}}
    with assert_traces(f, 1):
        for _ in range(3):
            assert f(values).item() == 9_999
    values["n"][5_000] = -1
    with assert_traces(f, 1):
        f(values)
    shared = {**values, "k": tensors[:5_000] * 2}
    with assert_traces(f, 1):
        f(shared)
        f(shared)


def test_huge_strings():
    f = tracehost.function(lambda x, s: x * len(s))
    text = "ab" * 2_000_000
    assert traces(f, (X, text), (X, "".join(["ab"] * 2_000_000)), (X, text + "c")) == "101"


def test_nesting_up_to_the_limit():
    f = tracehost.function(lambda tree: 1)
    tree = X
    for _ in range(200):
        tree = [tree]
    assert traces(f, (tree,), (tree,)) == "10"
    with pytest.raises(tracehost.SignatureError, match="nested deeper than 200 levels"):
        f([tree])


class Evil:
    """Its equality empties the containers that are being walked."""

    def __init__(self, *targets):
        self.targets = targets

    def __eq__(self, other):
        for target in (*self.targets, *other.targets):
            target.clear()
        gc.collect()
        return True

    def __hash__(self):
        return 1


def test_containers_emptied_by_an_equality_during_the_walk():
    f = tracehost.function(lambda tree: 1)

    def tree():
        inner = [torch.ones(2), [torch.ones(3)]]
        table = {"t": torch.ones(4), "inner": inner}
        outer = [inner, table]
        outer += [Evil(outer, table, inner), {"last": [torch.ones(5)]}, torch.ones(1)]
        return outer

    for _ in range(20):
        assert f(tree()) == 1
    keys = [{Evil(): [torch.ones(2)]} for _ in range(20)]
    for table in keys:
        next(iter(table)).targets = (table,)
        assert f([table, 1]) == 1


def test_a_dict_that_another_thread_changes():
    f = tracehost.function(lambda tree: 1)
    table = {i: [i, torch.ones(1)] for i in range(50)}
    stop = threading.Event()

    def change():
        i = 0
        while not stop.is_set():
            table[i % 70] = [i % 3, torch.ones(1)]
            table.pop((i * 7) % 70, None)
            i += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            try:
                assert f(table) == 1
            except tracehost.Error as error:
                text = str(error)
                assert (
                    "changes its argument" in text
                    or "changed during the trace" in text
                    or ("was made during the trace by something that is not recorded" in text)
                )
            except RuntimeError as error:
                assert "another thread has changed" in str(error)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_objects_with_an_odd_equality():
    class Raises:
        def __eq__(self, other):
            raise ValueError

        __hash__ = object.__hash__

    class GivesTensor:
        def __eq__(self, other):
            return torch.ones(2)

        __hash__ = object.__hash__

    class OnlyEqual:
        def __eq__(self, other):
            return True

    for kind, expected in ((Raises, "101"), (GivesTensor, "101"), (OnlyEqual, "101")):
        f = tracehost.function(lambda x, v: x)
        one = kind()
        assert traces(f, (X, one), (X, one), (X, kind())) == expected, kind
