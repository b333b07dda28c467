"""Lists, dicts, tuples and sets that a traced body reads are compared element by element."""

import collections
import dataclasses
from operator import setitem

import pytest
import torch
from environment_support import Config, Model, X, checked, row, take, take_steps
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


THING = None  # set by the test


def doubles(x):
    return x * 2 if "double" in THING else x


# What makes THING, a body, and steps as in a Row, done to THING.
IN_A_GLOBAL = {
    "elements of a list": (
        lambda: [1.0, 2.0],
        lambda x: x * THING[0] + THING[1],
        (lambda numbers: setitem(numbers, 1, 7.0), 2),
        (lambda numbers: setitem(numbers, 1, 2.0), 2),
    ),
    "elements of a dict, and of a list in it": (
        lambda: {"a": 1.0, "b": {"c": [2.0]}},
        lambda x: x * THING["a"] + THING["b"]["c"][0],
        (lambda table: setitem(table["b"]["c"], 0, 4.0), 2),
        (lambda table: setitem(table, "a", 3.0), 3),
        (lambda table: (setitem(table, "a", 1.0), setitem(table["b"]["c"], 0, 2.0)), 3),
    ),
    "an item and the length of a long list": (
        lambda: [0.0] * 2000,
        lambda x: x * THING[0] + len(THING),
        (lambda numbers: setitem(numbers, 999, 1.0), 1),
        (lambda numbers: setitem(numbers, 0, 1.0), 2),
        (lambda numbers: numbers.append(0.0), 3),
    ),
    "all items of a long list": (
        lambda: [0.0] * 2000,
        lambda x: x * sum(THING),
        (lambda numbers: setitem(numbers, 1999, 1.0), 2),
    ),
    "whether an element is in a set": (
        lambda: {"double", 3},
        doubles,
        (lambda modes: modes.discard("double"), 2),
        (lambda modes: modes.add("other"), 2),
        (lambda modes: modes.add("double"), 2),
    ),
    "the elements of a set": (
        lambda: {2, 3},
        lambda x: x * sum(THING),
        (lambda numbers: numbers.discard(2), 2),
        (lambda numbers: numbers.add(5), 3),
        (lambda numbers: (numbers.discard(5), numbers.add(2)), 3),
    ),
    "a tensor in a deque, which is held and seen in place": (
        lambda: collections.deque([torch.ones(4)]),
        lambda x: x + THING[0],
        (lambda queue: queue[0].mul_(5), 1),
    ),
}


@pytest.mark.parametrize("name", IN_A_GLOBAL)
def test_in_a_global(name, change):
    make, body, *steps = IN_A_GLOBAL[name]
    thing = make()
    change("THING", thing)
    take_steps(steps, thing, checked(body))


def reads_in_order(table):
    def body(x):
        for k in table.values():
            x = x * 2 + k
        return x

    return body


def applies_layers(model):
    def body(x):
        for layer in model.layers:
            x = layer(x)
        return x

    return body


def double_a_weight(model):
    with torch.no_grad():
        model.layers[0].weight.mul_(2)


def ring():
    a, b = Config(), Config()
    a.next, b.next = b, a
    a.list = [a]
    a.list.append(a.list)
    return a


IN_A_CELL = {
    "the order of a dict": row(
        lambda: {"a": 1.0, "b": 2.0}, reads_in_order, (lambda d: d.update(a=d.pop("a")), 2)
    ),
    "a list of modules": row(
        Model,
        applies_layers,
        (double_a_weight, 1),
        (lambda model: setitem(model.layers, 1, nn.Linear(4, 4)), 2),
        (lambda model: model.layers.append(nn.Linear(4, 3)), 3),
    ),
    "cycles": row(
        ring,
        lambda a: lambda x: x * a.next.next.scale * len(a.list) + a.next.scale,
        (lambda a: setattr(a.next, "scale", 3.0), 2),
    ),
}


@pytest.mark.parametrize("name", IN_A_CELL)
def test_in_a_cell(name):
    take(IN_A_CELL[name])


def test_tuple_in_a_cell():
    t = (1.0, [2.0])
    check = checked(lambda x: x * t[0] + t[1][0])
    for i in range(50):
        t = (float(i % 3) + 0.5, [2.0])
        check(min(i + 1, 3))
    t[1][0] = 3.0
    check(4)


def test_keys_that_are_objects():
    key = Config()
    d = {key: 2.0, 3: 1.0, (1, 2): 4.0}
    check = checked(lambda x: x * d[key] + d[3])
    check(1)
    d[key] = 5.0
    check(2)


def test_user_eq_that_raises():
    class Bad:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            raise RuntimeError("no comparison")

        def __hash__(self):
            return 1

    b = Bad(2.0)
    check = checked(lambda x: x * b.k)
    check(1)
    check(1)
    b = Bad(3.0)
    check(2)


def test_equal_objects_by_user_eq():
    @dataclasses.dataclass(frozen=True)
    class Key:
        name: str
        extra: object = dataclasses.field(default=None, compare=False)

    def body(x, key):
        return x * len(key.name) + (key.extra or 0)

    check = checked(body)
    check(1, X, Key("a"))
    check(1, X, Key("a"))
    check(2, X, Key("a", 5))
    check(2, X, Key("a"))
    check(2, X, Key("a", 5))
