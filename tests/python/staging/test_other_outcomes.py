"""Control flow that no graph can have, in a trace for another outcome of a check: the call ends as plain Python, in the same run."""

import warnings

import pytest
import torch
import tracehost
from core_support import assert_same

pytestmark = [
    pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::tracehost.TraceWarning"),
    pytest.mark.filterwarnings("ignore::tracehost.SideEffectWarning"),
]


class State:
    n = 0


STATE = State()


def store(row, value):
    STATE.n = value
    return row + value


def stores_in_a_loop(x):
    for row in x:
        if row > 0:
            store(row, 1)
        else:
            store(row, 2)
    return x * STATE.n


def strings(x):
    if x.sum() > -100:
        y = "a"
    else:
        y = "b"
    return x, y


def returns_on_some_paths(x):
    if x[0] < 0:
        return x
    return None


def a_list_of_containers(x):
    rows = []
    for row in x:
        rows.append((row, {"v": row}))
    return rows


def a_list_beside(x):
    for _, name in zip(x, ["p", "q"], strict=True):
        x = x + len(name)
    return x


def gradients_in_a_branch(x):
    w = x.clone().requires_grad_()
    if (x < 0).any():
        (w * w).sum().backward()
    return w.grad


def a_set_of_floats(x):
    found = set()
    for row in x:
        found.add(float(row))
    return sorted(found)


def a_dict_in_a_loop(x):
    i = 0
    while i < x.abs().sum():
        made = {i: x}
        i = i + 1
    return x * len(made)


@pytest.mark.parametrize(
    "other",
    [
        stores_in_a_loop,
        strings,
        returns_on_some_paths,
        a_list_of_containers,
        a_list_beside,
        gradients_in_a_branch,
        a_set_of_floats,
        a_dict_in_a_loop,
    ],
    ids=lambda body: body.__name__,
)
def test_ends_as_plain_python(other):
    runs = []

    def body(x):
        if {True: 1, False: 0}[bool(x[1] > 0)]:
            return x * 2
        runs.append(1)
        return other(x)

    f = tracehost.function(body, watch=False)
    f(torch.tensor([1.0, 1.0]))
    for first in (-1.0, -2.0, -1.0, -3.0):
        x = torch.tensor([first, -1.0])
        STATE.n = 0
        expected, n = str(other(x.clone())), STATE.n
        STATE.n = 0
        before = len(runs)
        assert (str(f(x.clone())), STATE.n) == (expected, n)
        assert len(runs) <= before + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(f(torch.tensor([1.0, 1.0])), torch.tensor([2.0, 2.0]))


def selected_in_a_dict(p, i):
    if p.sum() > 0:
        return {"v": p[i]}
    return {}


def selected_or_first(p, i):
    return (p[i], "a") if p.sum() > 0 else (p[0], "b")


@pytest.mark.parametrize("body", [selected_in_a_dict, selected_or_first])
def test_an_element_that_one_side_takes(body):
    f = tracehost.function(body)
    for sign in (1.0, -1.0, 1.0, -1.0):
        given = torch.tensor([1.0, 2.0]) * sign, torch.tensor(1)
        assert_same(f(*given), body(*given))
    assert (f.tracing_count(), f.stats()["eager"]) == (2, 0)
