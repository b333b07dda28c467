"""Errors at a line of a library: a user can't change that line, so the message has a remedy for the user's own."""

import pytest
import torch
import tracehost
from library_support import installed
from tracehost.testing import assert_traces

SOURCE = """
import torch

def normed(x):
    return x / float(x.detach().numpy().max())

def hooked(x):
    x.register_hook(lambda g: None)
    return x * 2
"""
REMEDY = (
    " That line is a library's: decorate a part of the function that does not reach it, or call it in "
    "tracehost.py_function."
)
X = torch.arange(1.0, 4.0)


@pytest.fixture
def library():
    return installed(SOURCE)


def message_of(function, *args):
    with pytest.raises(tracehost.Error) as caught:
        tracehost.function(function)(*args)
    return str(caught.value)


def test_the_remedy_is_in_the_users_code(library):
    said = message_of(lambda x: library["normed"](x * 2), X)
    line = test_the_remedy_is_in_the_users_code.__code__.co_firstlineno + 1
    assert f"(Tensor.numpy) at test_library_remedies.py:{line} (in a_library.py:5)" in said
    assert said.endswith(REMEDY)


def test_a_line_of_the_users_own_has_no_such_remedy():
    said = message_of(lambda x: x / float(x.numpy().max()), X)
    assert "library's" not in said
    assert said.endswith("function, or let the graph call this code by tracehost.py_function.")


def test_following_the_remedy_for_a_line_of_the_users_own():
    def largest(t):
        return torch.as_tensor(t.numpy().max())

    f = tracehost.function(lambda x: x / tracehost.py_function(largest, [x], torch.float32))
    with assert_traces(f, 1):
        for k in (1, 2, 3):
            torch.testing.assert_close(f(X * k), X / 3)


def test_a_hook_of_a_library(library):
    def body(x):
        return library["hooked"](x * 1).sum()

    assert message_of(body, X.clone().requires_grad_()).endswith(
        "is not recorded in a graph. Do it outside of the function." + REMEDY
    )


def test_following_it_by_a_smaller_part(library):
    double = tracehost.function(lambda x: x * 2)
    with assert_traces(double, 1):
        for _ in range(3):
            assert torch.equal(library["normed"](double(X)), X * 2 / 6)


def test_following_it_by_py_function(library):
    @tracehost.function
    def whole(x):
        return tracehost.py_function(library["normed"], [x * 2], torch.float32) + 1

    with assert_traces(whole, 1):
        for _ in range(3):
            assert torch.equal(whole(X), X * 2 / 6 + 1)
