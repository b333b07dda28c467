"""A number that C code reads as the last in a side of an `if`: each value is checked there."""

import itertools
from types import SimpleNamespace

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

NAMES = ["cat", "dog", "eel"]
STATE = SimpleNamespace(mode="x")


def name_or_text(n, up):
    i = n.item()
    return NAMES[i] if up > 0 else "unknown"


def stored_letter(n, up):
    i = n.item()
    if up > 0:
        STATE.mode = "abc"[i]
    return STATE.mode


def repeated_list(n, up):
    i = n.item()
    if up > 0:
        return [0] * i
    return [sum(range(i))]


def hexadecimal(n, up):
    return hex(n.item()) if up > 0 else None


def products(n, up):
    if up > 0:
        return list(itertools.repeat("a", n.item()))
    return n


def text_as_an_int(n, up):
    i = n.item()
    return int(str(i), 10) if up > 0 else None


def text_as_a_float(n, up):
    i, value = n.item(), 0.0
    if up > 0:
        value = float(f"{i}.5")
    return value


def length_of_a_text(n, up):
    i, length = n.item(), 0
    if up > 0:
        length = len(str(i * 10))
    return length


def compared_text(n, up):
    i, found = n.item(), 0
    if up > 0:
        found = 1 if str(i) == "1" else 2
    return found


def text_as_a_key(n, up):
    i, found = n.item(), 0
    if up > 0:
        found = {"1": 5}.get(str(i), 7)
    return found


def character(n, up):
    i = n.item()
    return f"{i}ab"[0] if up > 0 else "z"


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        name_or_text,
        stored_letter,
        repeated_list,
        hexadecimal,
        products,
        text_as_an_int,
        text_as_a_float,
        length_of_a_text,
        compared_text,
        text_as_a_key,
        character,
    ],
)
def test_as_eager(body, autograph):
    f = tracehost.function(body, autograph=autograph)
    for _ in range(2):
        for n, up in itertools.product((1, 2, 0), (1.0, -1.0)):
            given = torch.tensor(n), torch.tensor(up)
            STATE.mode = "x"
            expected = body(*given)
            STATE.mode = "x"
            assert f(*given) == expected


def test_a_text_of_what_is_raised_stays_in_the_graph():
    @tracehost.function
    def f(n, up):
        i = n.item()
        if up > 0:
            if i > 1:
                raise ValueError(f"no {i}")
            i = i + 1
        return i

    with assert_traces(f, 1):
        for n, up in ((1, 1.0), (0, -1.0), (1, -1.0), (0, 1.0)):
            assert f(torch.tensor(n), torch.tensor(up)) == n + (up > 0)
        for n in (2, 3):
            with pytest.raises(ValueError, match=f"no {n}"):
                f(torch.tensor(n), torch.tensor(1.0))
