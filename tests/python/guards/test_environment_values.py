"""Globals and cells that a traced body reads are part of the signature."""

import functools

import pytest
import torch
from environment_support import checked, put, row, take
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


NUMBER = 2.0

LIST = [1.0, 2.0]

WEIGHT = torch.ones(4)

UNRELATED = 1


def read_number(x):
    return x * NUMBER


def helper(x):
    return x * NUMBER


# A body, and steps: the globals that are set, and the traces in all once the body was called after it.
GLOBALS = {
    "a number, and back": (read_number, ({"NUMBER": 3.0}, 2), ({"NUMBER": 2.0}, 2)),
    "an equal value in a new object": (read_number, ({"NUMBER": float("2")}, 1)),
    "others than it reads": (read_number, ({"UNRELATED": 2, "A_NEW_GLOBAL": 2}, 1)),
    "the type of a number": (read_number, ({"NUMBER": 2}, 2), ({"NUMBER": True}, 3)),
    "a builtin, shadowed later": (lambda x: x * abs(-2), ({"abs": lambda v: 7}, 2)),
    "one that a helper reads": (lambda x: helper(x) + 1, ({"NUMBER": 5.0}, 2)),
    "a helper": (lambda x: helper(x), ({"helper": lambda x: x - 1}, 2)),
    "a list, by an equal one and others": (
        lambda x: x * LIST[0] + len(LIST),
        ({"LIST": [1.0, 2.0]}, 1),
        ({"LIST": (1.0, 2.0)}, 2),
        ({"LIST": [1.0, 2.0, 3.0]}, 3),
    ),
    "a list, of which one item is read": (
        lambda x: x * LIST[0],
        ({"LIST": [1.0, 5.0]}, 1),
        ({"LIST": [2.0, 5.0]}, 2),
    ),
    "a tensor, by one of its kind and others": (
        lambda x: x + WEIGHT,
        ({"WEIGHT": torch.full((4,), 7.0)}, 1),
        ({"WEIGHT": torch.ones(4, dtype=torch.float64)}, 2),
        ({"WEIGHT": torch.ones(1)}, 3),
        ({"WEIGHT": 1.0}, 4),
    ),
}


@pytest.mark.parametrize("name", GLOBALS)
def test_global_replaced(name, change):
    body, *steps = GLOBALS[name]
    check = checked(body)
    check(1)
    for values, traces in steps:
        for which, value in values.items():
            change(which, value)
        check(traces)


def add_one(net):
    with torch.no_grad():
        net.weight.add_(1)


def times_k(table, x):
    return x * table["k"]


CALLED = {
    "the defaults of a function": row(
        lambda: lambda x, factor=2.0, *, offset=1.0: x * factor + offset,
        lambda helper: lambda x: helper(x),
        (put(__defaults__=(3.0,)), 2),
        (lambda helper: helper.__kwdefaults__.update(offset=5.0), 3),
    ),
    "the weight of a module": row(
        lambda: nn.Linear(4, 2), lambda net: lambda x: net(x), (add_one, 1)
    ),
    "what a partial holds, which is the body": row(
        lambda: {"k": 2.0},
        lambda table: functools.partial(times_k, table),
        (lambda table: table.update(k=3.0), 2),
    ),
}


@pytest.mark.parametrize("name", CALLED)
def test_what_the_body_calls(name):
    take(CALLED[name])


def test_cell_rebound():
    k = 2.0
    check = checked(lambda x: x * k)
    check(1)
    k = 3.0
    check(2)
    k = 2.0
    check(2)


def test_many_floats_in_a_cell_are_never_taken_for_each_other():
    k = 0.5
    check = checked(lambda x: x * k)
    for i in range(200):
        k = float(i % 5) + 0.25
        check(min(i + 1, 5))


def test_two_closures_of_one_helper():
    def make(n):
        return lambda x: x * n

    twice, thrice = make(2.0), make(3.0)
    check = checked(lambda x: twice(x) + thrice(x))
    check(1)
    thrice.__closure__[0].cell_contents = 4.0
    check(2)


def test_partial():
    def scale(x, k, *, b):
        return x * k + b

    p = functools.partial(scale, k=2.0, b=1.0)
    check = checked(lambda x: p(x))
    check(1)
    p = functools.partial(scale, k=3.0, b=1.0)
    check(2)
