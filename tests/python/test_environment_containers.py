"""Lists, dicts and tuples that a traced body reads are compared element by element."""

import dataclasses

import pytest
import torch
import tracehost
from environment_support import Config, X, same
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


LIST = [1.0, 2.0]

DICT = {"a": 1.0, "b": {"c": [2.0]}}

LONG = [0.0] * 2000


def test_list_elements_in_a_global():
    def body(x):
        return x * LIST[0] + LIST[1]

    f = tracehost.function(body)
    same(f, body, X)
    LIST[1] = 7.0
    same(f, body, X)
    assert f.tracing_count() == 2
    LIST[1] = 2.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_list_replaced_by_an_equal_one_is_a_hit(change):
    def body(x):
        return x * LIST[0]

    f = tracehost.function(body)
    same(f, body, X)
    change("LIST", [1.0, 2.0])
    same(f, body, X)
    assert f.tracing_count() == 1
    change("LIST", (1.0, 2.0))
    same(f, body, X)
    change("LIST", [1.0, 2.0, 3.0])
    same(f, body, X)
    assert f.tracing_count() == 3


def test_dict_elements_in_a_global():
    def body(x):
        return x * DICT["a"] + DICT["b"]["c"][0]

    f = tracehost.function(body)
    same(f, body, X)
    DICT["b"]["c"][0] = 4.0
    same(f, body, X)
    DICT["a"] = 3.0
    same(f, body, X)
    assert f.tracing_count() == 3
    DICT["a"], DICT["b"]["c"][0] = 1.0, 2.0
    same(f, body, X)
    assert f.tracing_count() == 3


def test_order_of_a_dict_counts():
    d = {"a": 1.0, "b": 2.0}

    def body(x):
        for k in d.values():
            x = x * 2 + k
        return x

    f = tracehost.function(body)
    same(f, body, X)
    a = d.pop("a")
    d["a"] = a
    same(f, body, X)
    assert f.tracing_count() == 2


def test_tuple_in_a_cell():
    t = (1.0, [2.0])

    def body(x):
        return x * t[0] + t[1][0]

    f = tracehost.function(body)
    for i in range(50):
        t = (float(i % 3) + 0.5, [2.0])
        same(f, body, X)
    t[1][0] = 3.0
    same(f, body, X)
    assert f.tracing_count() == 4


def test_list_of_modules(model):
    def body(x):
        for layer in model.layers:
            x = layer(x)
        return x

    f = tracehost.function(body)
    same(f, body, X)
    with torch.no_grad():
        model.layers[0].weight.mul_(2)
    same(f, body, X)
    assert f.tracing_count() == 1
    model.layers[1] = nn.Linear(4, 4)
    same(f, body, X)
    assert f.tracing_count() == 2
    model.layers.append(nn.Linear(4, 3))
    same(f, body, X)
    assert f.tracing_count() == 3


def test_cycles():
    a, b = Config(), Config()
    a.next, b.next = b, a
    a.list = [a]
    a.list.append(a.list)

    def body(x):
        return x * a.next.next.scale * len(a.list) + a.next.scale

    f = tracehost.function(body)
    same(f, body, X)
    b.scale = 3.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_list_beyond_the_bound():
    def body(x):
        return x * LONG[0] + len(LONG)

    f = tracehost.function(body)
    same(f, body, X)
    LONG[999] = 1.0
    same(f, body, X)
    assert f.tracing_count() == 2
    LONG.append(0.0)
    same(f, body, X)
    assert f.tracing_count() == 3
    del LONG[2000:]
    LONG[999] = 0.0


def test_keys_that_are_objects():
    key = Config()
    d = {key: 2.0, 3: 1.0, (1, 2): 4.0}

    def body(x):
        return x * d[key] + d[3]

    f = tracehost.function(body)
    same(f, body, X)
    d[key] = 5.0
    same(f, body, X)
    assert f.tracing_count() == 2


def test_user_eq_that_raises():
    class Bad:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            raise RuntimeError("no comparison")

        def __hash__(self):
            return 1

    b = Bad(2.0)

    def body(x):
        return x * b.k

    f = tracehost.function(body)
    same(f, body, X)
    same(f, body, X)
    assert f.tracing_count() == 1
    b = Bad(3.0)
    same(f, body, X)
    assert f.tracing_count() == 2


def test_equal_objects_by_user_eq():
    @dataclasses.dataclass(frozen=True)
    class Key:
        name: str
        extra: object = dataclasses.field(default=None, compare=False)

    def body(x, key):
        return x * len(key.name) + (key.extra or 0)

    f = tracehost.function(body)
    same(f, body, X, Key("a"))
    same(f, body, X, Key("a"))
    assert f.tracing_count() == 1
    same(f, body, X, Key("a", 5))
    assert f.tracing_count() == 2
    same(f, body, X, Key("a"))
    same(f, body, X, Key("a", 5))
    assert f.tracing_count() == 2
