"""Texts of tensors and numbers where they have no values: in a loop's body, a side, a trace from specs.

Such a text is a placeholder. What the body computes from a text must be eager's, or an error."""

import json
import re

import pytest
import torch
import tracehost
from tracehost import TensorSpec

COMPUTED = {
    "repr of a tensor": lambda x, i: x + len(repr(x)),
    "str of a tensor": lambda x, i: x + len(str(x)),
    "a tensor in an f-string": lambda x, i: x + len(f"{x.sum()}"),
    "format of a tensor": lambda x, i: x + len("{}".format(x)),  # noqa: UP032
    "an item's str": lambda x, i: x + len(str(x.sum().item())),
    "an int's str": lambda x, i: x + len(str(int(i))),
    "a float in an f-string": lambda x, i: x + len(f"{float(x.sum()):.2f}"),
    "percent": lambda x, i: x + len("%s" % int(i)),  # noqa: UP031
    "format of an int": lambda x, i: x + len("{:d}".format(int(x.sum()))),  # noqa: UP032
    "a text that is compared": lambda x, i: x + (1 if str(int(i)) == "1" else 2),
    "a text that is a key": lambda x, i: x + {"0": 5, "1": 7}.get(str(int(i)), 9),
    "a text that C code reads": lambda x, i: x + int(str(int(i)) + "1"),
    "a text that is searched": lambda x, i: x + len(re.findall("1", str(int(x.sum())))),
    "a text that is joined": lambda x, i: x + len(",".join(map(str, x.tolist()))),
    "a letter of a text": lambda x, i: x + ord(f"{int(i)}"[0]),
    "json": lambda x, i: x + len(json.dumps(x.tolist())),
    "the text of sizes": lambda x, i: x + len(str(x.shape)),
}

SMALL, LARGE = torch.full((3,), 2.0), torch.full((3,), 20000.0)
CALLS = [(SMALL, 2), (LARGE, 2), (SMALL, 0), (LARGE, 1)]
SPECS = [TensorSpec([3]), TensorSpec([], torch.int64)]


def in_while(compute):
    def f(x, n):
        i = torch.zeros((), dtype=torch.int64)
        while i < n:
            x = compute(x, i)
            i = i + 1
        return x

    return f


def in_for(compute):
    def f(x, n):
        for i in range(int(n)):
            x = compute(x, i)
        return x

    return f


def in_side(compute):
    def f(x, n):
        if x.sum() > 100:
            x = compute(x, n)
        return x

    return f


def in_body(compute):
    return lambda x, n: compute(x, n)


def served(f, calls):
    return [f(x, torch.tensor(n)) for x, n in calls]


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("place", [in_while, in_for, in_side, in_body])
@pytest.mark.parametrize(
    "calls", [CALLS, CALLS[2:] + CALLS[:2]], ids=["first taken", "first not taken"]
)
def test_a_text_is_as_in_eager(place, name, calls):
    plain = place(COMPUTED[name])
    for mine, eager in zip(served(tracehost.function(plain), calls), served(plain, calls)):
        assert torch.equal(mine, eager)


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("place", [in_while, in_for, in_side, in_body])
def test_a_text_in_a_trace_from_specs_is_as_in_eager_or_an_error(place, name):
    plain = place(COMPUTED[name])
    try:
        concrete = tracehost.function(plain, input_signature=SPECS).get_concrete_function()
    except (tracehost.ValueReadError, tracehost.StagingError) as error:
        assert re.search(r"test_texts_of_values\.py:\d+", str(error))
        return
    for mine, eager in zip(served(concrete, CALLS), served(plain, CALLS)):
        assert torch.equal(mine, eager)


def test_the_error_of_a_loop_names_its_line_and_the_texts():
    def f(x, n):
        i = torch.zeros((), dtype=torch.int64)
        while i < n:
            x = x + len(f"{float(x.sum()):.2f}")
            i = i + 1
        return x

    line = f.__code__.co_firstlineno
    with pytest.raises(tracehost.StagingError) as caught:
        tracehost.function(f, input_signature=SPECS).get_concrete_function()
    file = "test_texts_of_values.py"
    assert str(caught.value) == (
        f"the body of the while at {file}:{line + 2} makes the text of a number at {file}:{line + 3}, and the loop "
        "is part of the graph, which can't do that. Do it behind the loop, or write the loop over Python values."
    )


def test_texts_that_are_raised_or_printed_are_no_reads(capsys):
    def f(x, n):
        for i in range(int(n)):
            print(f"turn {float(x.sum()):.1f}")
            if x.sum() > 1e6:
                why = f"{float(x.sum()):.1f} at {int(i)}"
                raise ValueError(f"too large: {why}")
            x = x * 2
        return x

    g = tracehost.function(f)
    for x in (SMALL, LARGE):
        assert torch.equal(g(x, torch.tensor(2)), f(x, torch.tensor(2)))
    for h in (f, g):
        with pytest.raises(ValueError, match=r"^too large: 1920000\.0 at 5"):
            h(LARGE, torch.tensor(9))
