"""What a loop's body stores: an attempt to stage the loop is no part of what the body does."""

import functools
import types

import pytest
import torch
import tracehost


def item(o, x, i):
    o.d["k"] = o.d["k"] + 1
    return x + o.d["k"]


def item_with_default(o, x, i):
    o.d["n"] = o.d.get("n", 0) + 1
    return x + o.d["n"]


def attribute(o, x, i):
    o.n = o.n + 1
    return x + o.n


def name(o, x, i):
    o.name = f"n{int(i)}"
    return x


def list_of_numbers(o, x, i):
    o.numbers[0] = o.numbers[0] + 2
    return x + o.numbers[0]


def caught(o, x, i):
    try:
        o.n += 1
        if int(i) > 0:
            raise ValueError
    except ValueError:
        o.n += 10
    return x + o.n


BODIES = [item, item_with_default, attribute, name, list_of_numbers, caught]


def in_while(body):
    def f(o, x, n):
        i = torch.zeros((), dtype=torch.int64)
        while i < n:
            x = body(o, x, i)
            i = i + 1
        return x

    return f


def in_for(body):
    def f(o, x, n):
        for i in range(int(n)):
            x = body(o, x, i)
        return x

    return f


def in_side(body):
    def f(o, x, n):
        if x.sum() > 100:
            x = body(o, x, n)
        return x

    return f


def in_side_of_a_loop(body):
    def f(o, x, n):
        for i in range(int(n)):
            if x.sum() > 100:
                x = body(o, x, i)
            else:
                x = x + 1
        return x

    return f


def state():
    return types.SimpleNamespace(d={"k": 0}, n=0, name="a", numbers=[1, 2])


SMALL, LARGE = torch.full((3,), 2.0), torch.full((3,), 200.0)
CALLS = [
    (SMALL, 2),
    (LARGE, 2),
    (SMALL, 0),
    (LARGE, 1),
    (SMALL, 3),
    (LARGE, 0),
    (LARGE, 2),
    (LARGE, 2),
    (SMALL, 2),
    (SMALL, 2),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("place", [in_while, in_for, in_side, in_side_of_a_loop])
@pytest.mark.parametrize("first", [0, 2, 3, 6])
def test_results_and_state_are_as_in_eager(place, body, first):
    mine, eager = state(), state()
    f, plain = (
        tracehost.function(functools.partial(place(body), mine)),
        functools.partial(place(body), eager),
    )
    for x, n in CALLS[first:] + CALLS[:first]:
        assert torch.equal(f(x, torch.tensor(n)), plain(x, torch.tensor(n)))
        assert mine == eager
