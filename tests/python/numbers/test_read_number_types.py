"""What a number read from a tensor can't say in code that is not converted: its type, and that it is True."""

import copy

import pytest
import torch
import tracehost
from core_support import assert_same, place
from torch.utils import _pytree as pytree
from tracehost.testing import assert_traces

X = torch.tensor([1.0, 2.0])

REFUSED = {
    "is int": lambda x: x * 2 if type(x.long().sum().item()) is int else x * 3,
    "== float": lambda x: x * 2 if type(x.sum().item()) == float else x * 3,  # noqa: E721
    "in a tuple": lambda x: x * 2 if type(x.sum().item()) in (int, float) else x * 3,
    "an item": lambda x: x * {int: 2.0, float: 3.0}[type(x.sum().item())],
    "get": lambda x: x * {int: 2.0, float: 3.0}.get(type(x.sum().item()), 5.0),
    "is True": lambda x: x * 2 if (x.sum() > 0).item() is True else x * 3,
    "is not False": lambda x: x * 2 if (x.sum() > 0).item() is not False else x * 3,
    "issubclass": lambda x: x * 2 if issubclass(type(x.sum().item()), float) else x * 3,
    "its name": lambda x: x * 2 if type(x.sum().item()).__name__ == "float" else x * 3,
    "a call": lambda x: x * type(x.sum().item())(3),
    "of two": lambda x: x if type(x.sum().item()) is type(x.long().sum().item()) else x * 2,
}

AS_EAGER = {
    "is None": lambda x: x * 2 if x.sum().item() is None else x * 3,
    "is list": lambda x: x * 2 if type(x.sum().item()) is list else x * 3,
    "in other types": lambda x: x * 2 if type(x.sum().item()) in (list, tuple) else x * 3,
    "a table of other types": lambda x: x * {list: 2.0}.get(type(x.sum().item()), 3.0),
    "its class": lambda x: x * 2 if x.sum().item().__class__ is float else x * 3,
    "isinstance": lambda x: x * 2 if isinstance(x.sum().item(), float) else x * 3,
    "a tree": lambda x: pytree.tree_map(lambda leaf: leaf * 2, {"a": x, "n": x.sum().item()}),
    "a copy": lambda x: x * copy.deepcopy([x.sum().item()])[0],
    "of plain numbers": lambda x: x * 2 if int is int and (x.dim() == 1) is True else x,
}


@pytest.mark.parametrize("name", REFUSED)
def test_code_that_is_not_converted_is_rejected(name):
    f = tracehost.function(REFUSED[name], autograph=False)
    with pytest.raises(
        tracehost.ValueReadError, match=r"asked for at test_read_number_types.py:\d+, in code"
    ):
        f(X)


@pytest.mark.parametrize("name", REFUSED | AS_EAGER)
def test_converted_code_is_as_eager(name):
    body = (REFUSED | AS_EAGER)[name]
    f = tracehost.function(body)
    for x in (X, X + 1, -X):
        assert_same(f(x), body(x))


@pytest.mark.parametrize("name", AS_EAGER)
def test_questions_with_one_answer(name):
    f = tracehost.function(AS_EAGER[name], autograph=False)
    with assert_traces(f, 1):
        for x in (X, X + 1):
            assert_same(f(x), AS_EAGER[name](x))


def test_the_message_and_its_remedy():
    def asks(x):
        n = x.sum().item()
        return x * 2 if type(n) is float else x * 3  # here

    def instead(x):
        n = x.sum().item()
        return x * 2 if isinstance(n, float) else x * 3

    with pytest.raises(tracehost.ValueReadError) as caught:
        tracehost.function(asks, autograph=False)(X)
    assert str(caught.value) == (
        f"type() of a number that the body has read from a tensor is asked for at {place(asks)}, in code that is not "
        "converted. There the number is of a class of its own. Ask isinstance(n, int), or convert the code "
        "(autograph.convert)."
    )
    assert_same(tracehost.function(instead, autograph=False)(X), X * 2)
    assert_same(tracehost.function(asks)(X), X * 2)
