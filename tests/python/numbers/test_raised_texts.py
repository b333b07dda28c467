"""The text of what a body raises has the numbers of the call that raises, not of the trace."""

import math

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces

SPECS = [
    "",
    ".3f",
    ".0f",
    "8.2f",
    "<9.1f",
    "^11.2e",
    "+.1f",
    " .4g",
    "010.3f",
    ".2%",
    "*>12.1f",
    "G",
    "E",
    "=+9.1f",
    "<09.2f",
    "*^010.1f",
]
INT_SPECS = [
    "",
    "d",
    "5d",
    "<4d",
    "05d",
    "+d",
    "x",
    "X",
    "o",
    "b",
    ".2f",
    "^7",
    "e",
    ".1%",
    "<08d",
    "^09d",
    "*>08d",
]
VALUES = [2.0, -0.5, 1e17, 1e-7, 123456.789, math.inf, -0.0, 3.0, 1e22, 0.1, 33.333333333333336]
INTS = [0, 1, -17, 255, 10**15, -(2**63)]


def message(call, *args):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared)
        call(*args)
    return caught.value.args


@pytest.fixture
def body_of(tmp_path):
    def made(text):
        import importlib.util

        path = tmp_path / "raising.py"
        path.write_text(
            f"def body(x, c):\n    n = x.item()\n    if c > 0:\n        raise ValueError({text})\n    return x * 2\n"
        )
        spec = importlib.util.spec_from_file_location("raising", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.body

    return made


YES, NO = torch.tensor(1.0), torch.tensor(-1.0)


@pytest.mark.parametrize("spec", SPECS)
def test_a_float(body_of, spec):
    body = body_of(f"f'{{n:{spec}}} is the number'")
    f = tracehost.function(body)
    with assert_traces(f, 2):  # float32, float64
        f(torch.tensor(1.5), NO)
        for value in VALUES:
            x = torch.tensor(value, dtype=torch.float64)
            f(x, NO)
            assert message(f, x, YES) == message(body, x, YES)


@pytest.mark.parametrize("spec", INT_SPECS)
def test_an_int(body_of, spec):
    body = body_of(f"f'a {{n:{spec}}}, b {{n + 0}} {{n > 3}}'")
    f = tracehost.function(body)
    with assert_traces(f, 1):
        f(torch.tensor(5), NO)
        for value in INTS:
            assert message(f, torch.tensor(value), YES) == message(body, torch.tensor(value), YES)


@pytest.mark.parametrize(
    "text",
    [
        "f'{n}'",
        "f'{n!r} and {n!s}'",
        "'{} of {:.1f}'.format(1, n)",
        "str(n)",
        "n",
        "'a' + f'{n:.1f}' + 'b'",
        "f'{n * 2:.2f} < {n:.2f}'",
    ],
)
def test_ways_to_write_it(body_of, text):
    body = body_of(text)
    f = tracehost.function(body)
    f(torch.tensor(1.5), NO)
    for value in (2.25, -7.5):
        assert message(f, torch.tensor(value), YES)[0] in (
            message(body, torch.tensor(value), YES)[0],
            str(message(body, torch.tensor(value), YES)[0]),  # the graph raises texts
        )


@pytest.mark.parametrize("first", [YES, NO])
def test_the_trace_itself_raises(body_of, first):
    body = body_of("f'{n:.3f}'")
    f = tracehost.function(body)
    for value, c in ((1.5, first), (2.5, YES), (3.5, NO), (4.5, YES)):
        x = torch.tensor(value)
        if c is YES:
            assert message(f, x, c) == message(body, x, c)
        else:
            assert torch.equal(f(x, c), body(x, c))


def test_an_assert():
    @tracehost.function
    def f(x):
        n = int((x > 0).sum())
        assert n != 2, f"{n} of {x.numel()}, mean {x.mean().item():.2f}"
        return x * n

    with assert_traces(f, 1):
        f(torch.tensor([1.0, -1.0]))
        with pytest.raises(AssertionError, match=r"^2 of 2, mean 3.50\n"):
            f(torch.tensor([3.0, 4.0]))
        with pytest.raises(AssertionError, match=r"^2 of 2, mean 1.00\n"):
            f(torch.tensor([1.0, 1.0]))


def test_in_a_loop():
    @tracehost.function
    def f(x):
        while x.sum() > 1:
            x = x / 2
            if x[0] > 10:
                raise OverflowError(f"still {x[0].item():.1f}")
        return x

    f(torch.tensor([1.0, 1.0]))
    with pytest.raises(OverflowError, match=r"^still 15.0\n"):
        f(torch.tensor([30.0, 1.0]))


def test_a_counter():
    class Steps:
        n = 0

    steps = Steps()

    @tracehost.function
    def f(x):
        steps.n += 1
        if x.sum() > 3:
            raise RuntimeError(f"step {steps.n}: {x.sum().item()}")
        return x

    for _ in range(3):
        f(torch.ones(1))
    for n in (3, 4):  # what raises in the graph stores nothing, so it is traced
        with pytest.raises(RuntimeError, match=rf"^step {n + 1}: 7.0$"):
            f(torch.tensor([7.0]))


def test_a_text_that_the_body_catches_is_no_text_of_the_trace():
    @tracehost.function
    def f(x):
        try:
            raise ValueError(f"{x.sum().item():.1f}")
        except ValueError as error:
            return str(error)

    for n in (1.0, 2.0, 1.0):
        assert f(torch.full((2,), n)) == f"{2 * n:.1f}"
    assert f.stats()["hits"] == 0


def test_in_an_archive(tmp_path):
    @tracehost.function
    def f(x):
        n = x.sum().item()
        if n > 3:
            raise ValueError(f"{n:.2f} is too much")
        return x * 2

    f(torch.ones(2))
    f.save(tmp_path / "f.pt")
    loaded = tracehost.load(tmp_path / "f.pt")[f.name]
    with pytest.raises(ValueError, match="^7.00 is too much"):
        loaded(torch.tensor([3.0, 4.0]))


def test_what_has_no_text_in_a_graph_says_its_type(body_of):
    body = body_of("f'{n:,.1f}'")
    f = tracehost.function(body)
    f(torch.tensor(1.5), NO)
    assert message(f, torch.tensor(1.5), YES) == ("<traced float>",)
