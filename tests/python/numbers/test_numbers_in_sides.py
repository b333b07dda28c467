"""A number that C code reads as the last in a side of an `if`: each value is checked there."""

import itertools
from types import SimpleNamespace

import pytest
import torch
import tracehost

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


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize(
    "body", [name_or_text, stored_letter, repeated_list, hexadecimal, products]
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
