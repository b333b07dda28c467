"""Graphs of a body with checked ifs: one for each path. What the stored slots held before a call does not matter."""

import random
import warnings

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

NAME = "a"


class Held:
    def __init__(self):
        self.flag, self.other, self.table, self.list = "a", "a", {"k": "a"}, ["a", "a", 3]


def attribute():
    held = Held()

    def body(x):
        if x.sum() > 0:
            held.flag = "b"
        else:
            held.flag = "a"
        return x * 2

    return body, lambda: held.flag


def none_or_text():
    held = Held()

    def body(x):
        if x.sum() > 0:
            held.flag = None
        else:
            held.flag = "a"
        return x * 2

    return body, lambda: held.flag


def two_attributes():
    held = Held()

    def body(x):
        if x.sum() > 0:
            held.flag = "b"
        else:
            held.other = "c"
            held.flag = "a"
        return x * 2

    return body, lambda: (held.flag, held.other)


def element():
    held = Held()

    def body(x):
        if x.sum() > 0:
            held.table["k"] = "b"
        else:
            held.table["k"] = "a"
        return x * 2

    return body, lambda: held.table


def global_name():
    global NAME
    NAME = "a"

    def body(x):
        global NAME
        if x.sum() > 0:
            NAME = "b"
        else:
            NAME = "a"
        return x * 2

    return body, lambda: NAME


def enclosed_name():
    name = "a"

    def body(x):
        nonlocal name
        if x.sum() > 0:
            name = "b"
        else:
            name = "a"
        return x * 2

    return body, lambda: name


def in_a_helper():
    held = Held()

    def set_flag(value):
        held.flag = value

    def body(x):
        if x.sum() > 0:
            set_flag("b")
        else:
            set_flag("a")
        return x * 2

    return body, lambda: held.flag


def stored_before_the_if():
    held = Held()

    def body(x):
        held.other = "begun"
        if x.sum() > 0:
            held.flag = "b"
        else:
            held.flag = "a"
        held.other = held.flag
        return x * 2

    return body, lambda: (held.flag, held.other)


def nested():
    held = Held()

    def body(x):
        if x.sum() > 0:
            if x.sum() > 5:
                held.flag = "c"
            else:
                held.flag = "b"
        else:
            held.flag = "a"
        return x * 2

    return body, lambda: held.flag


def of_an_early_return():
    held = Held()

    def body(x):
        if x.sum() > 0:
            held.flag = "b"
            return x
        held.flag = "a"
        return x * 2

    return body, lambda: held.flag


# The body, and its paths.
BODIES = {
    attribute: 2,
    none_or_text: 2,
    two_attributes: 2,
    element: 2,
    global_name: 2,
    enclosed_name: 2,
    in_a_helper: 2,
    stored_before_the_if: 2,
    nested: 3,
    of_an_early_return: 2,
}


@pytest.mark.parametrize("make", BODIES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("first", [-1.0, 1.0])
@pytest.mark.parametrize("old", ["a", "b"])
def test_one_graph_for_each_path(make, first, old):
    draw = random.Random(1)
    values = [first, *draw.choices([-1.0, 1.0, 4.0], k=30)]
    seen, counts = [], []
    for wrap in (lambda body: body, tracehost.function):
        body, look = make()
        body(torch.ones(2) if old == "b" else -torch.ones(2))
        function = wrap(body)
        seen.append([])
        for value in values:
            result = function(torch.full((2,), value))
            seen[-1].append((result.tolist(), repr(look())))
        counts.append(function.tracing_count() if wrap is tracehost.function else 0)
    assert seen[0] == seen[1]
    assert counts[1] == BODIES[make]


def one_sided():
    held = Held()

    def body(x):
        if x.sum() > 0:
            held.flag = "b"
        return x * 2

    return held, body


def test_a_store_of_one_side_alone():
    held, body = one_sided()
    f = tracehost.function(body)
    draw = random.Random(2)
    stored = next(c for c in body.__code__.co_consts if c == "b")  # the object that the body stores
    with assert_traces(f, 2):
        for _ in range(40):
            value = draw.choice([-1.0, 1.0])
            held.flag = before = draw.choice(["a", stored, "c"])
            f(torch.full((2,), value))
            assert held.flag == ("b" if value > 0 else before)


def test_a_variable_that_finally_reads():
    def body(x):
        try:
            if x.sum() > 0:
                name = "double"
            else:
                name = "triple"
            y = x + 1
        finally:
            factor = {"double": 2, "triple": 3}[name]
        return y * factor

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for value in (1.0, -1.0, 2.0, -2.0):
            x = torch.full((2,), value)
            assert torch.equal(f(x), body(x))


def test_a_read_of_the_old_value_stays_a_guard():
    held = Held()

    @tracehost.function
    def f(x):
        before = held.flag
        if x.sum() > 0:
            held.flag = "b"
        else:
            held.flag = "a"
        return x * (2 if before == "a" else 3)

    with assert_traces(f, 4):
        for value in (1.0, 1.0, -1.0, -1.0, 1.0, -1.0):
            before = held.flag
            x = torch.full((2,), value)
            assert f(x).tolist() == (x * (2 if before == "a" else 3)).tolist()


def paths(count):
    held = Held()
    text = ["def body(x, held):"]
    for i in range(count):
        text += [
            "    x = x * 1.01",
            f"    if x[{i}] > 0:",
            f"        held.c{i} = 'b'",
            "    else:",
            f"        held.c{i} = 'a'",
        ]
    return held, "\n".join([*text, "    return x + 1"])


def test_at_the_limit_calls_run_as_plain_python(tmp_path):
    held, text = paths(6)
    expected, _ = paths(6)
    path = tmp_path / "body.py"
    path.write_text(text)
    names = {}
    exec(compile(text, str(path), "exec"), names)
    body = names["body"]
    f = tracehost.function(lambda x: body(x, held), autograph=True)
    draw = random.Random(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(300):
            x = torch.tensor([draw.choice([-1.0, 1.0]) for _ in range(6)])
            assert f(x).tolist() == body(x, expected).tolist()
            assert vars(held) == vars(expected)
    stats = f.stats()
    assert stats["traces"] == stats["live"] == 16
    assert stats["eager"] > 200
