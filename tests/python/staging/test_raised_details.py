"""An exception that a graph raises has eager's class, arguments and attributes."""

import errno

import pytest
import torch
import tracehost
from tracehost._traced import raised
from tracehost.testing import assert_traces


def no_file(x):
    if x.sum() > 0:
        raise OSError(errno.ENOENT, "no such file")
    return x


def a_key(x):
    if x.sum() > 0:
        raise KeyError(3)
    return x


def a_key_of_text(x):
    if x.sum() > 0:
        raise KeyError("k")
    return x


def several(x):
    if x.sum() > 0:
        raise ValueError("a", 2, 1.5, None)
    return x


def nothing(x):
    if x.sum() > 0:
        raise ValueError
    return x


def a_text(x):
    if x.sum() > 0:
        raise ValueError('it\'s {} "so"')
    return x


def a_number(x):
    n = x.sum().item()
    if n > 0:
        raise ValueError("too much", n)
    return x


@pytest.mark.parametrize(
    "body", [no_file, a_key, a_key_of_text, several, nothing, a_text, a_number]
)
def test_arguments_are_kept(body):
    f = tracehost.function(body)
    with assert_traces(f, 1):
        assert torch.equal(f(-torch.ones(2)), -torch.ones(2))
        for value in (1.0, 2.5):
            x = torch.full((2,), value)
            with pytest.raises(Exception) as eager:
                body(x)
            with pytest.raises(Exception) as graph:
                f(x)
            assert type(graph.value) is type(eager.value)
            assert graph.value.args == eager.value.args
            assert [type(a) for a in graph.value.args] == [type(a) for a in eager.value.args]
            assert str(graph.value) == str(eager.value)
            assert getattr(graph.value, "errno", None) == getattr(eager.value, "errno", None)


KEPT = ValueError("kept")


class Holder:
    error = KeyError("of the class")


HOLDER = Holder()
HOLDER.own = RuntimeError("of the object")
SEVERAL = [ValueError("first"), ValueError("second")]


def a_global(x):
    if x.sum() > 0:
        raise KEPT
    return x


def of_an_object(x):
    if x.sum() > 0:
        raise HOLDER.own
    elif x.sum() < -8:
        raise HOLDER.error
    return x


def from_another(x):
    if x.sum() > 0:
        raise KEPT from HOLDER.own
    return x


def of_a_list(x):
    for i in range(2):
        if x.sum() > i + 1:
            raise SEVERAL[i]
    return x


@pytest.mark.parametrize("body", [a_global, of_an_object, from_another, of_a_list])
def test_an_exception_from_outside_is_that_object(body):
    f = tracehost.function(body)
    for value in (-1.0, 1.0, -1.0, 1.0, -5.0, 2.0, -5.0, 2.0):
        x = torch.full((2,), value)
        try:
            expected = body(x)
        except Exception as error:
            with pytest.raises(type(error)) as raised_by:
                f(x)
            assert raised_by.value is error
        else:
            assert torch.equal(f(x), expected)


class Failure(Exception):
    def __init__(self, code, more):
        super().__init__(f"code {code}")
        self.code, self.more = code, more


def remade(error):
    name, text, details = raised.shown(error)
    return raised.made(name, text, details)


def test_attributes_and_cause():
    try:
        raise Failure(3, {"rows": [1, (2.5, "x")], True: None}) from KeyError("k")
    except Failure as error:
        made = remade(error)
    assert type(made) is Failure and str(made) == "code 3"
    assert made.code == 3 and made.more == {"rows": [1, (2.5, "x")], True: None}
    assert type(made.__cause__) is KeyError and made.__cause__.args == ("k",)


def test_raised_from_none():
    try:
        raise ValueError("a") from None
    except ValueError as error:
        made = remade(error)
    assert made.__suppress_context__ and made.__cause__ is None


def test_what_is_no_literal_is_left_out():
    made = remade(Failure(3, object()))
    assert made.code == 3 and not hasattr(made, "more")
    assert raised.shown(ValueError(object()))[2] == ""
    assert raised.shown(ValueError("a"))[2] == raised.shown(ValueError())[2] == ""
    assert raised.shown(ValueError(float("nan")))[2] == ""
    assert raised.made("builtins:ValueError", "a", "((<traced int>,), {}, False, None)") is None


# ---- numbers of the call as arguments -------------------------------------------------------------


def of_one(n, x):
    if n > 2:
        raise ValueError(n)


def of_a_key(n, x):
    if n > 2:
        raise KeyError(n)


def of_two(n, x):
    k = n * 2
    if n > 2:
        raise IndexError(n, k)


def of_an_os_error(n, x):
    if n > 2:
        raise OSError(n, "..")


def of_an_assert(n, x):
    assert n < 3, n


def of_a_place(n, x):
    for i, v in enumerate(x):
        if v > 2:
            raise ValueError("bad", i, v.item())


@pytest.mark.parametrize(
    "check", [of_one, of_a_key, of_two, of_an_os_error, of_an_assert, of_a_place]
)
def test_numbers_are_those_of_the_call(check):
    def body(x):
        check(x[1].item(), x)
        return x * 2

    f = tracehost.function(body)
    with assert_traces(f, 1):
        for n in (1, 7, 8, 2, 9):
            x = torch.tensor([0, n])
            try:
                expected = body(x)
            except Exception as error:
                with pytest.raises(type(error)) as got:
                    f(x)
                # pytest adds to the text of an assert
                args = (n,) if check is of_an_assert else error.args
                assert got.value.args == args and str(got.value) == str(type(error)(*args))
                assert [type(a) for a in got.value.args] == [type(a) for a in args]
            else:
                assert torch.equal(f(x), expected)
