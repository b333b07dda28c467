"""Texts of numbers of the graph: what is only shown, and what the body does with a text."""

import logging

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

X = torch.tensor([1.0, 2.5])
log = logging.getLogger(__name__)


SHOWN = {
    "a tensor with a format": lambda x: print(f"{x.mean():.3f}", f"{x.sum():>6.1f}"),
    "percent": lambda x: print("%.3f %d" % (x.mean(), x[0])),
    "percent of a number": lambda x: print("%.3f" % x.mean().item(), "%(a).1f" % {"a": 1.0}),
    "format": lambda x: print(f"{x.mean():.3f}", f"{x.sum().item()}"),
    "a sum": lambda x: print("m " + str(x.mean().item()) + "!", format(x.mean().item(), ".2f")),
}


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
def test_what_is_printed_shows_the_values_of_the_trace(show, capsys):
    show(X)
    expected = capsys.readouterr().out

    @tracehost.function
    def f(x):
        show(x)
        return x * 2

    with assert_traces(f, 1):
        for _ in range(3):
            f(X)
        assert capsys.readouterr().out == expected


def test_print_shows_a_tensor_and_a_text_its_number(capsys):
    @tracehost.function
    def f(x):
        print(x.mean(), f"{x.mean()}")
        return x

    f(X)
    assert capsys.readouterr().out == "<traced tensor float32[]> 1.75\n"


def test_a_logger_shows_them(caplog):
    @tracehost.function
    def f(x):
        log.warning("loss %.2f %s", x.mean(), x.sum().item())
        log.warning(f"loss {x.mean():.2f}")
        return x

    f(X)
    assert [r.getMessage() for r in caplog.records] == ["loss 1.75 3.5", "loss 1.75"]


def test_a_block_that_is_not_run_has_no_values(capsys):
    @tracehost.function
    def f(x, n):
        for _i in range(n):
            print(f"{x.mean():.3f}", "%.1f" % x.mean())
            x = x * 2
        return x

    torch.testing.assert_close(f(X, torch.tensor(2)), X * 4)
    assert capsys.readouterr().out == "<traced float> nan\n"


TEXTS = {
    "f-string": lambda x: f"{x.mean():.3f}",
    "of a number": lambda x: f"{x.mean().item()}",
    "percent": lambda x: "%.3f" % x.mean().item(),
    "str": lambda x: str(x.mean().item()),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_of_a_float_is_the_calls_own(text):
    @tracehost.function
    def f(x):
        return text(x), x * 2

    with assert_traces(f, 4):
        for scale in (1.0, 2.0, 1.0, 3.0):
            assert f(X * scale)[0] == text(X * scale)
        assert f.stats()["hits"] == 0
    assert "makes a text of a float at test_shown_texts.py:" in str(tracehost.events(f)[-1])


def test_a_text_of_an_int_is_checked():
    @tracehost.function
    def f(x):
        return "%d" % x.sum().long().item(), f"{x.sum().long().item()}"

    for n in (3, 3, 4, 3, 4):
        assert f(torch.ones(n)) == (str(n), str(n))
    f = tracehost.function(f.python_function)
    with assert_traces(f, 2):
        for n in (3, 3, 4, 3, 4):
            assert f(torch.full((2,), n / 2)) == (str(n), str(n))
    assert f.stats()["hits"] == 3


def test_the_graph_of_an_error_with_a_text_is_validated():
    @tracehost.function
    def f(x, name):
        n = x.sum().item()
        if n > 9:
            raise ValueError(f"{name} {n} {int(n):3d}")
        return x * n

    f(X, "a")
    with pytest.raises(ValueError, match="a 35.0  35"):
        f(X * 10, "a")
    assert f.stats()["validated"] == 1
    assert f.stats()["unvalidated"] == 0


def text(x):
    return f"loss {x.sum()}", f"{x.sum()} {x.max():>8}", f"{x.long().sum()}"


def raised(x):
    if x.sum() > 3:
        raise ValueError(f"too large: {x.sum()}")
    return x


def raised_in_a_loop(x):
    total = x.sum()
    for row in x:
        if row > 3:
            raise ValueError(f"row {row} of {total}")
    return total


@pytest.mark.parametrize("body", [text, raised, raised_in_a_loop])
def test_a_tensor_without_dimensions_has_the_text_of_its_number(body):
    f = tracehost.function(body)
    for first in (1.0, 5.0, 1.0, 6.5):
        x = torch.tensor([first, 0.5])
        try:
            expected = body(x)
        except ValueError as error:
            with pytest.raises(ValueError) as raised_by:
                f(x)
            assert str(raised_by.value) == str(error)
        else:
            got = f(x)
            assert torch.equal(got, expected) if body is not text else got == expected
