"""print() into a buffer that the body made: a text like any other. Each call gets its own values."""

import contextlib
import io
import sys

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def an_int(x):
    buffer = io.StringIO()
    print(int(x), file=buffer)
    return buffer.getvalue()


def a_float(x):
    buffer = io.StringIO()
    print(x.item(), "a", file=buffer, sep="-")
    return buffer.getvalue()


def formatted(x):
    buffer = io.StringIO()
    print(f"n={int(x)} {x:.2f}", "%.1f" % x.item(), "{}".format(x * 2), file=buffer)  # noqa: UP032
    return buffer.getvalue()


def tensors(x):
    buffer = io.StringIO()
    print(x, [x + 1], file=buffer)
    return len(buffer.getvalue()), buffer.getvalue()


def redirected(x):
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        print("n = %d" % int(x))
        print(x)
    return buffer.getvalue(), x * 2


class Log:
    def __init__(self):
        self.text = io.StringIO()


def of_an_attribute(x):
    log = Log()
    print(int(x), file=log.text)
    return log.text.getvalue()


def show(n, out):
    print("v", n, file=out)


def in_a_function(x):
    buffer = io.StringIO()
    show(int(x), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "body",
    [an_int, a_float, formatted, tensors, redirected, of_an_attribute, in_a_function],
    ids=lambda body: body.__name__,
)
def test_the_text_is_the_calls(body):
    f = tracehost.function(body)
    for value in (1.0, 3.0, 4.0, 3.0):
        x = torch.tensor(value)
        assert repr(f(x)) == repr(body(x))


def test_the_text_of_an_int_is_checked():
    f = tracehost.function(an_int)
    with assert_traces(f, 2):
        for value in (1, 2, 1, 2):
            assert f(torch.tensor(value)) == f"{value}\n"


def test_the_text_of_a_dynamic_size():
    def body(x):
        buffer = io.StringIO()
        print(x.shape[0], file=buffer)
        return buffer.getvalue()

    f = tracehost.function(body, reduce_retracing=True)
    for n in (1, 3, 4, 3):
        assert f(torch.ones(n)) == f"{n}\n"


def test_a_terminal_is_for_people(capsys):
    @tracehost.function
    def f(x):
        print(int(x), file=sys.stderr)
        print(int(x), x)
        return x * 2

    with assert_traces(f, 1):
        for value in (1.0, 2.0, 3.0):
            f(torch.tensor(value))
    assert capsys.readouterr() == ("1 <traced tensor float32[]>\n", "1\n")


def test_a_caller_that_captures_is_for_people():
    @tracehost.function
    def f(x):
        print(int(x))
        return x * 2

    with assert_traces(f, 1):
        with contextlib.redirect_stdout(io.StringIO()) as captured:
            for value in (1.0, 2.0, 3.0):
                f(torch.tensor(value))
    assert captured.getvalue() == "1\n"
