"""Loops and sides that take from an iterator, a file or a generator: each turn takes once, and no attempt does."""

import io
import itertools
import random

import pytest
import torch
import tracehost


def items():
    taken = iter([float(n) for n in range(1, 90)])

    def body(x, n):
        for _ in range(n):
            x = x + next(taken)
        return x

    return body


def with_a_default():
    taken = iter([1.0, 2.0, 3.0])

    def body(x, n):
        for _ in range(n):
            x = x + next(taken, 100.0)
        return x

    return body


def texts():
    taken = itertools.cycle("abcde")

    def body(x, n):
        text = ""
        for _ in range(n):
            text += next(taken)
        return text

    return body


def lines():
    file = io.StringIO("".join(f"{n}\n" for n in range(99)))

    def body(x, n):
        for _ in range(n):
            x = x + float(file.readline())
        return x

    return body


def sent():
    def double():
        got = 0.0
        while True:
            got = yield 2 * got

    generator = double()
    next(generator)

    def body(x, n):
        for i in range(n):
            x = x + generator.send(1.0 + int(i))
        return x

    return body


def until():
    taken = iter(range(1, 99))

    def body(x, n):
        while n < 10:
            n = n + next(taken)
        return n

    return body


def in_a_side():
    taken = iter(range(1, 99))

    def body(x, n):
        if n > 1:
            x = x + next(taken)
        else:
            x = x - next(taken)
        return x

    return body


def in_a_side_in_a_loop():
    taken = iter(range(1, 99))

    def body(x, n):
        for i in range(n):
            if x.sum() + i > 1:
                x = x + next(taken)
        return x

    return body


def made_by_the_turn():
    def body(x, n):
        for i in range(n):
            own = iter([1.0, 2.0])
            x = x + next(own) * next(own)
        return x

    return body


CASES = [
    items,
    with_a_default,
    texts,
    lines,
    sent,
    until,
    in_a_side,
    in_a_side_in_a_loop,
    made_by_the_turn,
]


@pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning", "ignore::tracehost.TraceWarning")
@pytest.mark.parametrize("make", CASES)
def test_calls_are_eagers(make):
    eager, f = make(), tracehost.function(make())
    for n in (2, 2, 3, 0, 1, 2, 3):
        assert f(torch.ones(1), torch.tensor(n)) == eager(torch.ones(1), torch.tensor(n))


def test_a_generator_of_random_numbers():
    """Python's numbers are drawn at the trace, once for each turn."""
    rng, other = random.Random(3), random.Random(3)

    @tracehost.function
    def f(x, n):
        for _ in range(n):
            x = x + rng.random()
        return x

    expected = other.random() + other.random()
    assert f(torch.zeros(1, dtype=torch.float64), torch.tensor(2)).item() == expected
    assert rng.getstate() == other.getstate()


@pytest.mark.parametrize("turns", [0, 2])
def test_an_attempt_changes_no_bytearray(turns):
    text = bytearray(b"a")

    @tracehost.function
    def f(x, n):
        for _ in range(n):
            text.append(98)
        return x

    f(torch.ones(1), torch.tensor(turns))
    assert text == b"a" + b"b" * turns


def test_from_specs_it_is_an_error():
    taken = iter([1.0, 2.0])

    @tracehost.function(
        input_signature=[tracehost.TensorSpec([1]), tracehost.TensorSpec([], torch.int64)]
    )
    def f(x, n):
        for _ in range(n):
            x = x + next(taken)  # here
        return x

    with pytest.raises(tracehost.StagingError) as caught:
        f.get_concrete_function()
    with open(__file__) as source:
        line = next(n for n, text in enumerate(source, 1) if text.rstrip().endswith("# here"))
    assert f"takes from an iterator of type list_iterator at test_taken_in_loops.py:{line}" in str(
        caught.value
    )
    assert next(taken) == 1.0
