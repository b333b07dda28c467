"""Exceptions: eager's type, the user's own traceback, and a cache that is as before."""

import sys
import traceback

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(4.0)


class Custom(Exception):
    def __init__(self, code, *, detail):
        super().__init__(code)
        self.detail = detail


def raises_value_error(x):
    raise ValueError("wrong")


def raises_custom(x):
    raise Custom(3, detail="kept")


def raises_keyboard(x):
    raise KeyboardInterrupt


def raises_exit(x):
    sys.exit(4)


def raises_stop(x):
    raise StopIteration(5)


def raises_assert(x):
    raise AssertionError("message")


def raises_name(x):
    return x * unknown_name  # noqa: F821


def raises_attribute(x):
    return x.unknown


def raises_shape(x):
    return x @ torch.ones(3)


def raises_dtype(x):
    return x.long() / "a"


def raises_index(x):
    return x[7]


def raises_op(x):
    return torch.cat([x, x.view(2, 2)])


def raises_recursion(x):
    return raises_recursion(x)


BODIES = [
    raises_value_error,
    raises_custom,
    raises_keyboard,
    raises_exit,
    raises_stop,
    raises_assert,
    raises_name,
    raises_attribute,
    raises_shape,
    raises_dtype,
    raises_index,
    raises_op,
]


def caught(call, *args):
    try:
        call(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("body", BODIES)
def test_an_exception_of_the_body_is_eagers(body):
    f = tracehost.function(body)
    expected = caught(body, X)
    for _ in range(2):
        got = caught(f, X)
        assert type(got) is type(expected) and str(got) == str(expected)
        assert got.args == expected.args
    assert f.stats()["live"] == f.tracing_count() == 0


def test_the_exception_object_is_the_users_own():
    f = tracehost.function(raises_custom)
    assert caught(f, X).detail == "kept"


@pytest.mark.parametrize("body", [raises_value_error, raises_op, raises_name])
def test_the_traceback_has_only_the_users_frames(body):
    error = caught(tracehost.function(body), X)
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names == ["caught", body.__name__]
    assert error.__cause__ is None and error.__context__ is None
    assert not hasattr(error, "__notes__")


def test_causes_and_notes_are_kept():
    def body(x):
        try:
            raise KeyError("first")
        except KeyError as first:
            error = ValueError("second")
            error.add_note("a note")
            raise error from first

    error = caught(tracehost.function(body), X)
    assert isinstance(error.__cause__, KeyError) and error.__notes__ == ["a note"]


def test_too_deep_a_recursion():
    f = tracehost.function(raises_recursion)
    with pytest.raises(RecursionError):
        f(X)
    assert torch.equal(tracehost.function(lambda x: x * 2)(X), X * 2)


@pytest.mark.parametrize("body", BODIES)
def test_the_cache_is_as_before_and_the_next_call_traces(body):
    f = tracehost.function(lambda x, fail: body(x) if fail else x * 2, limit=1)
    with assert_traces(f, 1):
        f(X, False)
        before = f.stats()
        caught(f, X, True)
        after = f.stats()
        before.pop("trace_ms"), after.pop("trace_ms")
        assert before == after
        assert torch.equal(f(X, False), X * 2)
    with assert_traces(f, 0):
        assert torch.equal(f(X + 1, False), (X + 1) * 2)


def test_a_call_traces_after_one_that_raised():
    fail = [True]

    def body(x):
        y = x * 2
        if fail[0]:
            raise ValueError
        return y

    f = tracehost.function(body)
    with assert_traces(f, 1):
        caught(f, X)
        fail[0] = False
        for _ in range(3):
            assert torch.equal(f(X), X * 2)


def test_modes_are_as_before_after_an_exception():
    def body(x):
        torch.set_grad_enabled(False)
        raise ValueError

    try:
        caught(tracehost.function(body), X)
        assert not torch.is_grad_enabled()  # as eager leaves it
    finally:
        torch.set_grad_enabled(True)
    assert torch.jit.is_tracing() is False
    assert X.tolist() == [0.0, 1.0, 2.0, 3.0]
